"""Commands about processes and pid files, without a run."""
