"""Queues on disk, and the pure plan of who starts next."""
