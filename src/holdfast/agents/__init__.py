"""What is special about each coding agent: profiles as data, and the readers that use them.

Nothing here supervises, signals or writes; the shim and manage call it.
"""
