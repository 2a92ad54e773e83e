"""What the programs on the way to Ray say to each other. Pure."""

from __future__ import annotations

TAKEN = b"+"  # the first that a command is told by the bridge; without it nothing was done
NOT_REACHED = 255  # exit code: the node did not get to answer
