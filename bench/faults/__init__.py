"""Faults, each judged by what really happened: `make faults`."""
