"""An ordinary, quiet program: a little memory, a line now and then, nothing else."""

import time

kept = bytearray(b"x") * 20_000_000
print("ready", flush=True)
while True:
    time.sleep(10)  # its rhythm
    print(len(kept), flush=True)
