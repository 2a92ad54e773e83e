"""Commands that change a run without ending it."""
