"""The process group backend of the device: `torch.distributed.init_process_group()` creates it through this file."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from torch_openreg import _C

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend, Store


# LITERALINCLUDE START: distributed-create
def create(store: Store, rank: int, size: int, timeout: timedelta) -> Backend:
    """Creates the backend of one process group, on each of its processes.

    PyTorch's wheel contains Gloo but not its headers, so C++ cannot create a process group of Gloo; Python can, and
    C++ then calls it through the common base class, `c10d::Backend`.

    Args:
        store: the keys and values through which the processes find each other; `torch.distributed` has added a prefix
            that no other group uses.
        rank: this process, from 0.
        size: how many processes there are.
        timeout: after how long an operation fails that another process has not joined.

    Raises:
        torch.distributed.DistBackendError: if not all processes come within the timeout.
    """
    # A group that is created again, after the first one was destroyed, may have its name, and the store still has the
    # addresses of that one. Each rank counts the groups that it has completed: of two that try again after a timeout,
    # one may have tried more often.
    completed = f"groups of {rank}"
    prefix_store = torch.distributed.distributed_c10d.PrefixStore
    own = prefix_store(str(store.add(completed, 0)), store)
    gloo = torch.distributed.ProcessGroupGloo(own, rank, size, timeout)
    control = None
    if _share_memory(own, rank, size):
        control = torch.distributed.ProcessGroupGloo(prefix_store("windows", own), rank, size, timeout)
    store.add(completed, 1)
    return _C._staged_backend(gloo, control, own)


# LITERALINCLUDE END: distributed-create


# LITERALINCLUDE START: distributed-one-machine
def _share_memory(store: Store, rank: int, size: int) -> bool:
    """Whether device memory can be shared by all processes of a group. Each of them gets the same answer.

    The environment variable `OPENREG_COLLECTIVES=staged`, in one process or more, makes it False. The default is
    `direct`.

    Raises:
        ValueError: if the variable has another value.
    """
    collectives = os.environ.get("OPENREG_COLLECTIVES", "direct")
    if collectives not in {"direct", "staged"}:
        raise ValueError(f"openreg: OPENREG_COLLECTIVES is 'direct' or 'staged', got {collectives!r}")
    can_share = size > 1 and _C._can_share() and collectives == "direct"
    # A new one at each start of Linux, so no two machines have the same.
    machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip() if can_share else ""
    store.set(f"machine of {rank}", machine)
    return can_share and all(store.get(f"machine of {other}").decode() == machine for other in range(size))


# LITERALINCLUDE END: distributed-one-machine


# LITERALINCLUDE START: distributed-default
@functools.cache
def _complete_groups() -> None:
    """Makes the backend the default one of a group that has no other.

    PyTorch 2.13 takes Gloo for the default of every group that is created without a backend's name, as
    `init_process_group()` does, also where the group has none. `DistributedDataParallel` asks for the default, and
    raises. Later releases choose among the backends that the group has: https://github.com/pytorch/pytorch/pull/189193
    And of several backends, as in `"cpu:gloo,openreg:staged"`, it takes none: it looks for their names in lower case
    among those of custom backends, which it keeps in upper case.

    Raises:
        RuntimeError: if the groups of this PyTorch lack what is replaced, or what the replacement calls.
    """
    group_class: Any = torch.distributed.ProcessGroup
    for name in ("_register_backend", "_device_types", "_set_default_backend", "name"):
        if not hasattr(group_class, name):
            raise RuntimeError(
                f"openreg: ProcessGroup.{name} of torch {torch.__version__} is missing, and the backend replaces "
                "ProcessGroup._register_backend; see torch_openreg/_distributed.py"
            )
    original = group_class._register_backend

    @functools.wraps(original)
    def _register_backend(self: Any, device: torch.device, backend_type: Any, backend: Any = None) -> None:
        original(self, device, backend_type, backend)
        has_default = self.name() != "undefined"
        if {known.type for known in self._device_types} == {"openreg"} or (
            device.type == "openreg" and not has_default
        ):
            self._set_default_backend(backend_type)

    group_class._register_backend = _register_backend


# LITERALINCLUDE END: distributed-default


# LITERALINCLUDE START: distributed-register
def register_process_groups() -> None:
    """Registers the backend `staged`, as the default for tensors on the device.

    `import torch` has imported `torch.distributed` by now, or this PyTorch was built without it. So looking at the
    loaded modules costs nothing, and finds all cases.
    """
    if "torch.distributed.distributed_c10d" in sys.modules:
        torch.distributed.Backend.register_backend("staged", create, devices=["openreg"])
        _complete_groups()
        atexit.register(_C._end_staged_backends)


# LITERALINCLUDE END: distributed-register
