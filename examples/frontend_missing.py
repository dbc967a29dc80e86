"""Removes names from the device module one by one, and prints how a call that needs the name ends without and with it.

Each call runs in a fork of its own, because a removed name stays removed for the rest of a process.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.codegen.common
import torch.distributed as dist
from torch._functorch._aot_autograd.utils import get_default_generator
from torch._prims.rng_prims import _impl_graphsafe_rng
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.memory_tracker import MemoryTracker
from torch.distributed.checkpoint.filesystem import _OverlappingCpuLoader
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPCommContext
from torch.nn.parallel.data_parallel import _check_balance
from torch.utils.checkpoint import checkpoint, get_device_states

from torch_openreg.openreg._absent import LATE


# LITERALINCLUDE START: frontend-missing-calls
def seeded() -> bool:
    """Whether a seed given before the device's first use gives the numbers that it gives after it."""
    torch.manual_seed(1)
    first = torch.rand(4, device="openreg")
    torch.manual_seed(1)
    return torch.equal(first, torch.rand(4, device="openreg"))


def recomputed() -> bool:
    """Whether a checkpointed function draws the same random numbers when it runs again in the backward."""
    drawn = []

    def draw(x: torch.Tensor) -> torch.Tensor:
        drawn.append(torch.rand(4, device="openreg"))
        return x.sin()

    x = torch.ones(4, device="openreg", requires_grad=True)
    y: Any = checkpoint(draw, x, use_reentrant=False)
    y.sum().backward()
    return torch.equal(*drawn)


def current_device_kept() -> object:
    """The device index of a tensor that the generated method moves while device 1 is current."""
    torch.accelerator.set_device_index(1)
    return torch.ones(1).openreg().get_device()


def fake() -> int:
    """The device index of a tensor without data, as torch.compile uses it, created while device 1 is current."""
    torch.accelerator.set_device_index(1)
    with FakeTensorMode():
        return torch.empty(1, device="openreg").get_device()


def forked_state() -> None:
    """Preserves the random state of a device across a block of code."""
    with torch.random.fork_rng([0]):
        pass


def draw() -> int:
    """The number of random numbers that an operator of a compiled graph draws, with a state of its own."""
    return torch.rand(4, device="openreg:0").numel()


def device_of_rank() -> int:
    """The device of a process in a distributed program, chosen by its local rank."""
    os.environ["LOCAL_RANK"] = "1"
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    init_device_mesh("openreg", (1,))
    return torch.accelerator.current_device_index()


def inductor() -> object:
    """What Inductor has registered for the device."""
    torch._inductor.codegen.common.init_backend_registration()
    return torch._inductor.codegen.common.get_scheduling_for_device("openreg")


CALLS: list[tuple[str, Callable[[], object]]] = [
    ("is_available", torch.accelerator.is_available),
    ("device_count", torch.accelerator.device_count),
    ("current_device", current_device_kept),
    ("set_device", device_of_rank),
    ("device", lambda: len(get_device_states(torch.ones(1, device="openreg")))),
    ("is_initialized", fake),
    ("_initialized", recomputed),
    ("_lazy_init", seeded),
    ("_is_in_bad_fork", seeded),
    ("manual_seed_all", seeded),
    ("get_rng_state", forked_state),
    ("set_rng_state", forked_state),
    ("get_amp_supported_dtype", lambda: torch.autocast("openreg", enabled=False).device),
    ("get_device_properties", lambda: _check_balance([0, 1])),
    ("_utils", lambda: torch.serialization._validate_device("openreg", "openreg")),
    ("Scheduling", inductor),
    ("_get_generator", lambda: get_default_generator(torch.device("openreg:0")).device),
    ("default_generators", lambda: _impl_graphsafe_rng(draw, rng_state=torch.Generator("openreg:0"))),
    ("Stream", lambda: FSDPCommContext().lazy_init(torch.device("openreg"))),
    ("current_stream", lambda: _OverlappingCpuLoader(lambda tensor: tensor).device_type),
    ("empty_cache", lambda: MemoryTracker().start_monitor(torch.nn.Linear(1, 1))),
]
# LITERALINCLUDE END: frontend-missing-calls


def take_out(name: str) -> None:
    """Makes the device module behave as if it never had the name."""
    if name == "_initialized":  # an attribute that the module computes
        del vars(torch.openreg)["__getattr__"]
    elif name in LATE:
        del LATE[name]
    else:
        vars(torch.openreg).pop(name, None)


def in_a_process_of_its_own(prefix: str, name: str, call: Callable[[], object]) -> None:
    """Makes the call in a fork and prints how it ends."""
    if (child := os.fork()) == 0:
        if prefix == "without":
            take_out(name)
        try:
            outcome = repr(call())
        except Exception as error:
            outcome = f"{type(error).__name__}: {' '.join(str(error).split())}"
        print(f"{prefix} {name}: {outcome}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)


def main() -> None:
    """Makes each call twice."""
    warnings.simplefilter("error")
    # PyTorch warns of its own code when Inductor is imported.
    warnings.filterwarnings("ignore", "`torch.jit.script_method` is deprecated", DeprecationWarning)
    for name, call in CALLS:
        for prefix in ("without", "with"):
            in_a_process_of_its_own(prefix, name, call)


if __name__ == "__main__":
    main()
