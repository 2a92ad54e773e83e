"""Slurm: the submitter's side, and the attendant that is its batch process on the node."""
