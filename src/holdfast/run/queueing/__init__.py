"""Queues on disk, and the pure plan of which run starts next."""
