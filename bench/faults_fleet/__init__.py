"""Faults on other machines, each judged by what really happened: `make faults-fleet`."""
