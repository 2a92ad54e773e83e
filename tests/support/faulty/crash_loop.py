"""Fails at once, each time that it is started."""

import sys

print("ready", flush=True)
sys.exit(3)
