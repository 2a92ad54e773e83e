"""The figures of a home for Prometheus: what they are, and how they are written."""
