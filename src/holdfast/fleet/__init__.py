"""Runs on other machines: an engine places them, the node's own record decides about them."""
