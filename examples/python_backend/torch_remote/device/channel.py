"""The connection between host and device: whole messages over a socket, large buffers beside them in shared memory."""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import socket
from collections.abc import Sequence
from typing import Any

PACKET = 1 << 16  # bytes; what does not fit travels in shared memory
Buffer = bytes | memoryview


# LITERALINCLUDE START: remote-channel
class Channel:
    """One end of the connection. SEQPACKET makes a message arrive whole or not at all, even after an interrupt.

    Thread: any number of threads may send at once; one receives.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def send(self, message: object, buffers: Sequence[Buffer] = ()) -> None:
        """Sends a message, and the buffers that belong to it.

        Throws: ``OSError`` if the other end is closed or there is no memory for the message; nothing is sent then.
        """
        data: Buffer = pickle.dumps((message, [len(buffer) for buffer in buffers]), 5)
        if len(data) <= PACKET and not buffers:
            self.socket.send(data)
            return
        memory = os.memfd_create("torch_remote")
        try:
            for buffer in (data, *buffers):
                _write(memory, buffer)
            socket.send_fds(self.socket, [len(data).to_bytes(8, "little")], [memory])
        finally:
            os.close(memory)

    def receive(self) -> tuple[Any, list[memoryview]]:
        """Waits for a message.

        Throws: ``EOFError`` or ``ConnectionError`` if the other end is closed, and ``OSError`` if the message's memory
        could not be received: then the message is lost.
        """
        data, memories, flags, _ = socket.recv_fds(self.socket, PACKET, 1)
        if flags & socket.MSG_CTRUNC:
            raise OSError(errno.EMFILE, "a message is lost, as this process can open no more files (RLIMIT_NOFILE)")
        if not memories:
            if not data:
                raise EOFError
            return pickle.loads(data)[0], []
        with os.fdopen(memories[0], "rb") as file:
            content = memoryview(mmap.mmap(file.fileno(), 0))
        length = int.from_bytes(data, "little")
        message, sizes = pickle.loads(content[:length])
        buffers, at = [], _aligned(length)
        for size in sizes:
            buffers.append(content[at : at + size])
            at = _aligned(at + size)
        return message, buffers


# LITERALINCLUDE END: remote-channel


def _aligned(position: int) -> int:
    """The next position at which a tensor of any dtype may begin."""
    return -(-position // 64) * 64


def _write(memory: int, buffer: Buffer) -> None:
    """Writes all of a buffer; one system call writes at most 2 GiB."""
    rest = memoryview(buffer).cast("B")
    while rest:
        rest = rest[os.write(memory, rest) :]
    os.lseek(memory, _aligned(os.lseek(memory, 0, os.SEEK_CUR)), os.SEEK_SET)
