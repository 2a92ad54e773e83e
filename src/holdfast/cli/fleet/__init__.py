"""Commands for runs on other machines."""
