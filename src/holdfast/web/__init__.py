"""`holdfast serve`: the API, the live page and /metrics. Needs the extra `web`."""
