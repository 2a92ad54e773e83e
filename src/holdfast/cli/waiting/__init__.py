"""Commands for waiting work: queues, pauses."""
