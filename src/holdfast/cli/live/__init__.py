"""Commands that other programs and screens look through."""
