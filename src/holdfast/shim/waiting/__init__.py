"""What a shim waits for: a queued run's conditions, or a used-up quota of its agent."""
