"""The memory of the device: which storage is at which address."""

from __future__ import annotations

import torch

from .wire import Layout, Place


# LITERALINCLUDE START: remote-memory
class Memory:
    """Storages by address. A storage is created when its address is first used, or when a result is put there.

    Addresses below ``lost`` belonged to another process, before a reset. Addresses are never reused.
    """

    def __init__(self, lost: int) -> None:
        self.lost = lost
        self.storages: dict[int, torch.UntypedStorage] = {}

    def storage(self, address: int, nbytes: int) -> torch.UntypedStorage:
        """The storage at an address."""
        found = self.storages.get(address)
        if found is None:
            if address < self.lost:
                raise RuntimeError(f"remote: the memory at {address:#x} was lost when its device was reset")
            # Two streams may be the first at once: both get the same.
            found = self.storages.setdefault(address, torch.UntypedStorage(nbytes))
        return found

    def tensor(self, place: Place, layout: Layout) -> torch.Tensor:
        """A tensor over the memory at a place."""
        storage = self.storage(place.address, place.nbytes)
        return torch.empty(0, dtype=layout.dtype).set_(storage, place.offset, layout.size, layout.stride)

    def put(self, address: int, layout: Layout, result: torch.Tensor, is_shared: bool) -> None:
        """Puts a result at a new address: its own storage if it is not shared and has this layout, otherwise a copy."""
        if tuple(result.size()) != layout.size:
            predicted, got = list(layout.size), list(result.size())
            raise RuntimeError(f"remote: a result of size {predicted} was expected, and the kernel gave {got}")
        plain = (*layout, 0, False, False) == (
            *(tuple(result.size()), result.stride(), result.dtype),
            *(result.storage_offset(), result.is_conj(), result.is_neg()),
        )
        if not plain or is_shared:
            result = torch.empty_strided(*layout[:2], dtype=layout.dtype).copy_(result)
        self.storages[address] = result.untyped_storage()

    def move(self, to: int, source: int, nbytes: int) -> None:
        """Copies bytes from one address to another."""
        size = torch.Size([nbytes])
        flat = Layout(tuple(size), (1,), torch.uint8)
        self.tensor(Place(to, nbytes, 0), flat).copy_(self.tensor(Place(source, nbytes, 0), flat))

    def free(self, addresses: list[int]) -> None:
        """Frees memory."""
        for address in addresses:
            self.storages.pop(address, None)


# LITERALINCLUDE END: remote-memory
