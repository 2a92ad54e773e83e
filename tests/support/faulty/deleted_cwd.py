"""Its working directory is removed under it."""

import os
import tempfile
import time

directory = tempfile.mkdtemp()
os.chdir(directory)
os.rmdir(directory)
print("ready", flush=True)
time.sleep(600)
