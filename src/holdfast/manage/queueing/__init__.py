"""Waiting work: what a start asks to wait for, how a queue stands, and what changes it."""
