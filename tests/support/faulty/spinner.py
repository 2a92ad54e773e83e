"""Burns a core and does nothing else."""

print("ready", flush=True)
while True:
    pass
