"""Hangs in the kernel: a vfork parent is in state D until its child execs or ends.

The child has a stack of its own and runs nothing but pause(2). Killing either ends both.
"""

import ctypes
import signal

CLONE_VM, CLONE_VFORK = 0x100, 0x4000
STACK_BYTES = 65536

libc = ctypes.CDLL(None, use_errno=True)
stack = ctypes.create_string_buffer(STACK_BYTES)
top = (ctypes.addressof(stack) + STACK_BYTES) & ~0xF
print("ready", flush=True)
libc.clone(
    ctypes.cast(libc.pause, ctypes.c_void_p),
    ctypes.c_void_p(top),
    CLONE_VM | CLONE_VFORK | signal.SIGCHLD,
    None,
)
