"""Shims watch one another: what they do when one is gone."""
