"""May have 100 descriptors open, and opens 97 one after the other."""

import os
import resource
import time

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
print("ready", flush=True)
for _ in range(97 - 3):
    os.open("/dev/null", os.O_RDONLY)
    time.sleep(0.02)
time.sleep(600)
