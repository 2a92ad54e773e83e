"""Runs elsewhere, kept fresh for a screen or a server, by threads of their own."""
