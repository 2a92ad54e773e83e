"""Runs placed by Ray."""
