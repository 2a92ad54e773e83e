"""A program of 60 MB: the workload behind wrappers. Ends after the seconds given, if any."""

import sys
import time

kept = bytearray(b"x") * 60_000_000
print("ready", flush=True)
time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 600)
