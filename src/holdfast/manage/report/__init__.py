"""What a run used over time: one frozen snapshot, and reporters that show it. No commands here."""
