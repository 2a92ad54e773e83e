"""A queued run: its shim, which waits for the conditions that were asked for."""
