"""`holdfast top`: the runs of a home on a live screen. Textual is imported from here alone.

The thread of the screen never reads the disk: the live model, what is read for a page and what is
done to runs have threads of their own, and hand over what they found.
"""
