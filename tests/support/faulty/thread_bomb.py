"""Starts 250 threads that sleep."""

import threading
import time

print("ready", flush=True)
threading.stack_size(256 * 1024)
for _ in range(250):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
time.sleep(600)
