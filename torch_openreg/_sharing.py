"""Device tensors in queues and pipes of `torch.multiprocessing`, and `share_memory_()`.

PyTorch 2.13 shares memory of the CPU and of CUDA, and skips the work for every other device: `share_memory_` would do
nothing, and a tensor sent through a queue would never arrive. The methods are replaced for storages of this backend
alone. A tensor is sent as its geometry and its storage, so storages are all that must be sent here.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable
from multiprocessing import queues, resource_sharer
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn, cast

import torch
from torch.multiprocessing import reductions

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init
from torch_openreg.openreg.interprocess import InterprocessEvent


# LITERALINCLUDE START: sharing-methods
def share_storages() -> None:
    """Makes `share_memory_`, `is_shared`, `_new_shared`, queues and pipes share device memory, or raise."""
    storage_class: Any = torch.UntypedStorage
    original_is_shared, original_share = storage_class.is_shared, storage_class.share_memory_
    original_new_shared = storage_class._new_shared.__func__

    def is_shared(self: torch.UntypedStorage) -> bool:
        return _C._is_shared(self) if self.device.type == "openreg" else bool(original_is_shared(self))

    @functools.wraps(original_share)
    def share_memory_(self: torch.UntypedStorage) -> torch.UntypedStorage:
        if self.device.type != "openreg":
            return cast(torch.UntypedStorage, original_share(self))
        _C._share_storage(self)
        return self

    @functools.wraps(original_new_shared)
    def _new_shared(cls: type[torch.UntypedStorage], size: int, *, device: Any = "cpu") -> torch.UntypedStorage:
        if torch.device(device).type != "openreg":
            return cast(torch.UntypedStorage, original_new_shared(cls, size, device=device))
        return share_memory_(cls(size, device=device))

    storage_class.is_shared = is_shared
    storage_class.share_memory_ = share_memory_
    storage_class._new_shared = classmethod(_new_shared)
    register: Any = ForkingPickler.register
    register(torch.UntypedStorage, _raised_where_seen(_reduce_storage))
    register(torch.Tensor, _raised_where_seen(_reduce_tensor))
    register(torch.nn.Parameter, _raised_where_seen(_reduce_tensor))
    register(torch.Event, _raised_where_seen(_reduce_event))
    register(InterprocessEvent, _raised_where_seen(_reduce_interprocess_event))


# LITERALINCLUDE END: sharing-methods


# LITERALINCLUDE START: sharing-errors
def _raise(message: str) -> NoReturn:
    raise RuntimeError(message)


def _raised_where_seen(reduce: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], tuple[Any, ...]]:
    """Makes an error reach a program that sends through a `Queue`.

    A `Queue` pickles in a thread of its own: `put` has returned, an exception there would only be printed, and the
    receiver would wait forever. So the error is sent in place of the tensor, and `get` raises it. This is for values
    of this backend; those of others are sent as they are without it.
    """

    @functools.wraps(reduce)
    def reduce_or_send_error(value: Any) -> tuple[Any, ...]:
        try:
            return reduce(value)
        except Exception as error:
            if value.device.type != "openreg" or not _is_only_printed():
                raise
            with contextlib.suppress(UserWarning):  # a filter may make it an exception, which would end here unseen
                warnings.warn(f"openreg: a Queue cannot send a value, and its receiver raises: {error}", stacklevel=2)
            return _raise, (f"the sender could not send a value: {error}",)

    return reduce_or_send_error


def _is_only_printed() -> bool:
    """Whether this is the thread of a `Queue` that prints its errors.

    That of a `ProcessPoolExecutor` does not: it sets the error on the future of the call.
    """
    thread = vars(threading.current_thread())  # whose _args are those of Queue._feed, with the handler of errors
    handler = queues.Queue._on_queue_feeder_error  # type: ignore[attr-defined]
    return any(argument is handler for argument in thread.get("_args", ()))


# LITERALINCLUDE END: sharing-errors


# LITERALINCLUDE START: sharing-send
def _reduce_tensor(tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.device.type == "openreg" and (tensor.is_conj() or tensor.is_neg()):
        raise RuntimeError(
            "openreg: a lazily conjugated or negated tensor cannot be sent to another process, which would read the "
            "values without it: send tensor.resolve_conj().resolve_neg()"
        )
    return cast(tuple[Any, ...], reductions.reduce_tensor(tensor))  # type: ignore[no-untyped-call]


def _reduce_storage(storage: torch.UntypedStorage) -> tuple[Any, ...]:
    if storage.device.type != "openreg":
        return cast(tuple[Any, ...], reductions.reduce_storage(storage))  # type: ignore[no-untyped-call]
    index, handle = storage.device.index, _C._storage_handle(storage)
    event = _C._InterprocessEvent(index)
    event_handle = event.ipc_handle() if event._record_behind_all_streams() else None
    _remember(handle, storage)  # it may come back, or be received by a thread of this process
    return _receive_storage, (index, storage.nbytes(), handle, event_handle, _keep_until_received(storage, event))


def _remember(handle: bytes, storage: torch.UntypedStorage) -> None:
    reductions.shared_cache[handle] = reductions.StorageWeakRef(storage)  # type: ignore[no-untyped-call]


def _keep_until_received(*values: object) -> tuple[Any, int]:
    """Keeps the values alive until a receiver has opened their handles, or this process ends.

    The thread in which Python hands out file descriptors to other processes drops them: its `close` is called when a
    receiver connects with the ticket that this returns.
    """
    kept = list(values)
    ticket: tuple[Any, int] = resource_sharer._resource_sharer.register(  # type: ignore[attr-defined]
        lambda connection, process: None, kept.clear
    )
    return ticket


# LITERALINCLUDE END: sharing-send


# LITERALINCLUDE START: sharing-receive
def _receive_storage(
    index: int, size: int, handle: bytes, event_handle: bytes | None, ticket: tuple[Any, int]
) -> torch.UntypedStorage:
    """Opens a storage, once for all tensors that share it, and lets the current stream wait for its writers."""
    _lazy_init()
    storage: torch.UntypedStorage | None = reductions.storage_from_cache(  # type: ignore[no-untyped-call]
        torch.UntypedStorage, handle
    )
    if storage is None:
        storage = _C._open_storage(handle, size, index)
        _remember(handle, storage)
    if event_handle is not None:
        _C._InterprocessEvent(index, event_handle)._block(_C._current_stream(index))
    _tell_received(ticket)
    return storage


def _tell_received(ticket: tuple[Any, int]) -> None:
    # If the sender has ended in the meantime, nothing is left to be told: what is open stays valid.
    with contextlib.suppress(OSError, EOFError):
        resource_sharer._resource_sharer.get_connection(ticket).close()  # type: ignore[attr-defined]


# LITERALINCLUDE END: sharing-receive


# LITERALINCLUDE START: sharing-events
def _reduce_event(event: torch.Event) -> tuple[Any, ...]:
    raise TypeError(
        "a torch.Event belongs to one process: send a torch.openreg.InterprocessEvent, or synchronize before you send"
    )


def _reduce_interprocess_event(event: InterprocessEvent) -> tuple[Any, ...]:
    return _receive_event, (event.device.index, event.ipc_handle(), _keep_until_received(event))


def _receive_event(index: int, handle: bytes, ticket: tuple[Any, int]) -> InterprocessEvent:
    event = InterprocessEvent.from_ipc_handle(index, handle)
    _tell_received(ticket)
    return event


# LITERALINCLUDE END: sharing-events
