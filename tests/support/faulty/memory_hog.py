"""Takes 25 MB more every quarter of a second, up to 400 MB, and keeps it."""

import time

STEP_BYTES, STEPS = 25_000_000, 16

kept = []
print("ready", flush=True)
for _ in range(STEPS):
    kept.append(bytearray(b"x") * STEP_BYTES)
    time.sleep(0.25)  # growth is judged over time
time.sleep(600)
