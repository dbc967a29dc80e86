"""Records the latest uses of memory: address ranges, each with its last write and the reads since then."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import torch
from torch.utils._traceback import CapturedTraceback


# LITERALINCLUDE START: races-access
@dataclass(eq=False)
class Access:
    """One use of memory by one operation."""

    operator: str
    argument: str
    writes: bool
    stream: int
    number: int  # the operation's number
    shape: tuple[int, ...]
    stack: CapturedTraceback
    is_freed: bool = False  # the memory has been freed since


@dataclass(eq=False)
class Cell:
    """A range of bytes that has always been used as a whole so far."""

    end: int
    write: Access | None = None
    reads: dict[int, Access] = field(default_factory=dict)  # the last read of each stream

    def accesses(self) -> Iterator[Access]:
        """All known accesses to the range."""
        if self.write is not None:
            yield self.write
        yield from self.reads.values()


# LITERALINCLUDE END: races-access


# LITERALINCLUDE START: races-memory
class Memory:
    """Non-overlapping cells by address. Splits cells where a range begins or ends, and fills gaps."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._cells: list[Cell] = []

    def _split(self, at: int) -> None:
        place = bisect_right(self._starts, at) - 1
        if place >= 0 and self._starts[place] < at < self._cells[place].end:
            cell = self._cells[place]
            self._starts.insert(place + 1, at)
            self._cells.insert(place + 1, Cell(cell.end, cell.write, dict(cell.reads)))
            cell.end = at

    def known(self, begin: int, end: int) -> list[Cell]:
        """The cells in a range. Gaps between them are not filled."""
        self._split(begin)
        self._split(end)
        return self._cells[bisect_left(self._starts, begin) : bisect_left(self._starts, end)]

    def read(self, begin: int, end: int, access: Access) -> None:
        """Adds a read to each byte of the range."""
        self.known(begin, end)
        place = bisect_left(self._starts, begin)
        while begin < end:
            if place == len(self._starts) or self._starts[place] > begin:
                until = min(end, self._starts[place]) if place < len(self._starts) else end
                self._starts.insert(place, begin)
                self._cells.insert(place, Cell(until))
            self._cells[place].reads[access.stream] = access
            begin = self._cells[place].end
            place += 1

    def write(self, begin: int, end: int, access: Access) -> None:
        """Makes the range a single cell that contains only the write."""
        self.known(begin, end)
        first, last = bisect_left(self._starts, begin), bisect_left(self._starts, end)
        self._starts[first:last] = [begin]
        self._cells[first:last] = [Cell(end, access)]

    def free(self, begin: int, end: int, settled: set[int]) -> None:
        """Discards the accesses of `settled` streams in a range, and marks the rest as accesses to freed memory."""
        for cell in self.known(begin, end):
            if cell.write is not None and cell.write.stream in settled:
                cell.write = None
            cell.reads = {stream: read for stream, read in cell.reads.items() if stream not in settled}
            for access in cell.accesses():
                access.is_freed = True


# LITERALINCLUDE END: races-memory


# LITERALINCLUDE START: races-ranges
_MOST_PIECES = 1024


def start(tensor: torch.Tensor) -> int:
    """The address of the tensor's storage. data_ptr() would copy memory that a lazy clone shares."""
    return int(torch._C._data_address(tensor))  # type: ignore[attr-defined]


def ranges(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """The bytes of a tensor as contiguous address ranges: a row of a matrix is one range, a column many.

    A tensor of more than 1024 pieces counts as one range, gaps included.
    """
    size = tensor.element_size()
    address = start(tensor) + int(tensor.storage_offset()) * size
    dims = sorted((stride, length) for stride, length in zip(tensor.stride(), tensor.shape, strict=True) if length > 1)
    run = 1  # contiguous elements
    while dims and dims[0][0] <= run:
        stride, length = dims.pop(0)
        run += stride * (length - 1)
    pieces = 1
    for _, length in dims:
        pieces *= length
    if pieces > _MOST_PIECES:
        run += sum(stride * (length - 1) for stride, length in dims)
        dims = []
    offsets = product(*(range(0, stride * length, stride) for stride, length in dims))
    return [(address + sum(offset) * size, address + (sum(offset) + run) * size) for offset in offsets]


# LITERALINCLUDE END: races-ranges
