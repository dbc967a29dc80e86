"""accelerate: `Accelerator()` chooses the device, with float16, `device_map="auto"` and several processes.

The Trainer of transformers stands on it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from torch_openreg import openreg
from torch_openreg.integrations import _library, _random_states

_VARIABLE = "ACCELERATE_TORCH_DEVICE"
_EARLIER: dict[str, str | None] = {}  # the variable as it was before register(), until unregister()


# LITERALINCLUDE START: accelerate-register
def register(index: int = 0) -> None:
    """Makes `Accelerator()` and the Trainer of transformers choose the device.

    Idempotent; a call with another index changes the device that is chosen from then on.

    Args:
        index: the device. In a process that `torchrun` has started, the process's rank on its host replaces it.

    Raises:
        ImportError: if accelerate is missing or too old.
        ValueError: if there is no such device.
        RuntimeError: if an `Accelerator` has chosen another device already, which accelerate keeps for the process; or
            if this release of accelerate lacks a function that is replaced.
    """
    _library.require("accelerate", "1.10")
    device = _library.device(int(os.environ.get("LOCAL_RANK", index)))
    from accelerate.state import PartialState

    chosen = PartialState._shared_state.get("device")
    if chosen is not None and torch.device(chosen) != device:
        raise RuntimeError(
            f"openreg: accelerate has chosen {chosen} for this process, and keeps it: call register() before the first "
            "Accelerator() or TrainingArguments(), or reset accelerate by AcceleratorState._reset_state(True)"
        )
    _library.install(_REPLACEMENTS)
    _EARLIER.setdefault(_VARIABLE, os.environ.get(_VARIABLE))
    os.environ[_VARIABLE] = str(device)


def unregister() -> None:
    """Undoes `register()`: the next process state of accelerate chooses as it would have. Idempotent."""
    for replacement in _REPLACEMENTS:
        replacement.remove()
    if _VARIABLE in _EARLIER:
        os.environ.pop(_VARIABLE, None)
        os.environ |= {name: value for name, value in _EARLIER.items() if value is not None}
        _EARLIER.clear()


# LITERALINCLUDE END: accelerate-register


# LITERALINCLUDE START: accelerate-memory
def _get_max_memory(original: Callable[..., Any]) -> Callable[..., Any]:
    """Free memory by device index, then the host's: what `device_map="auto"` divides a model by.

    The library has a branch for each vendor. Its last one counts CUDA devices, and finds none; so it is not asked about
    devices, also where the caller gives limits, since it would warn that they do not exist.
    """
    from accelerate.utils.modeling import convert_file_size_to_int

    def get_max_memory(max_memory: dict[int | str, int | str] | None = None) -> dict[int | str, int]:
        if max_memory is None:
            free = {index: openreg.mem_get_info(index)[0] for index in range(openreg.device_count())}
            return {**free, **original()}
        limits: dict[int | str, int] = {}
        for index in sorted(key for key in max_memory if isinstance(key, int)):
            limit = max_memory[_library.device(index).index]
            limits[index] = convert_file_size_to_int(limit) if isinstance(limit, str) else limit
        return {**limits, **original({key: limit for key, limit in max_memory.items() if key not in limits})}

    return get_max_memory


# LITERALINCLUDE END: accelerate-memory


# LITERALINCLUDE START: accelerate-half
def _with_float16(original: Callable[..., Any]) -> Callable[..., Any]:
    """Creates an `Accelerator` for float16: autocast as for bfloat16, and gradients that a `GradScaler` scales.

    The constructor has a list of devices that may use float16, and a scaler for CUDA where it knows no other. So it is
    called for bfloat16, which it allows on every device.
    """

    def create(self: Any, *arguments: Any, **options: Any) -> None:
        from accelerate.state import AcceleratorState

        given = _library.bound(original, self, *arguments, **options)
        known = AcceleratorState._shared_state
        wanted = given.arguments.get("mixed_precision") or known.get(
            "_mixed_precision", os.environ.get("ACCELERATE_MIXED_PRECISION")
        )
        if str(wanted) != "fp16" or given.arguments.get("cpu") or not _chosen():
            original(self, *arguments, **options)
            return
        before = known.get("_mixed_precision")
        fsdp = given.arguments.get("fsdp_plugin")
        has_policy = before is not None or getattr(fsdp, "mixed_precision_policy", None) is not None
        if before == "fp16":
            known["_mixed_precision"] = "bf16"
        given.arguments["mixed_precision"] = "bf16"
        try:
            original(*given.args, **given.kwargs)
        except BaseException:
            if before is not None:
                known["_mixed_precision"] = before
            raise
        known["_mixed_precision"] = "fp16"
        scaling = self.scaler_handler.to_kwargs() if self.scaler_handler is not None else {}
        self.scaler = _scaler(self, has_policy)("openreg", **scaling)

    return create


def _chosen() -> bool:
    """Whether accelerate computes on the device, or will when its process state is created."""
    from accelerate.state import PartialState

    chosen = PartialState._shared_state.get("device") or os.environ.get(_VARIABLE, "cpu")
    return torch.device(chosen).type == "openreg"


# LITERALINCLUDE END: accelerate-half


def _scaler(accelerator: Any, has_policy: bool) -> type[torch.amp.GradScaler]:
    """The scaler of a job. FSDP computes in the dtype of its own policy, which the constructor has made for bfloat16.

    A rank of FSDP1 sees the gradients of its own part alone, and all ranks must agree whether one has overflowed.
    """
    from accelerate.utils import DistributedType

    if accelerator.distributed_type != DistributedType.FSDP:
        return torch.amp.GradScaler
    plugin = accelerator.state.fsdp_plugin
    if not has_policy:
        plugin.set_mixed_precision("fp16", override=True)
    if plugin.fsdp_version == 2:
        return torch.amp.GradScaler
    from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    return ShardedGradScaler


# LITERALINCLUDE START: accelerate-random
def _create(original: Callable[..., Any]) -> Callable[..., Any]:
    """Creates an `Accelerator` whose checkpoints contain the random numbers of the devices.

    `save_state` and `load_state` have a list of vendors for these. The hooks of an `Accelerator` are public, and run on
    every process; an object of `register_for_checkpointing` is saved by the first process alone.
    """
    construct = _with_float16(original)

    def create(self: Any, *arguments: Any, **options: Any) -> None:
        construct(self, *arguments, **options)
        rank, device = self.process_index, self.device
        if device.type == "openreg":
            self.register_save_state_pre_hook(lambda _models, _weights, to: _random_states.save(to, rank, device))
            self.register_load_state_pre_hook(lambda _models, origin: _random_states.load(origin, rank, device))

    return create


# LITERALINCLUDE END: accelerate-random


# LITERALINCLUDE START: accelerate-processes
def _prepare_backend(original: Callable[..., Any]) -> Callable[..., Any]:
    """Names the process group of a job of several processes, and lets `cpu=True` mean the CPU.

    For a device that it does not know, accelerate creates no group: each process would train alone, in silence. The
    kind of job is that of several GPUs, which is the one without rules of a vendor's own.
    """

    def prepare(self: Any, cpu: bool = False, sagemaker_dp: bool = False, backend: str | None = None) -> Any:
        from accelerate.utils import DistributedType

        if cpu and _chosen():
            self.device = None  # the library gives the variable precedence over the argument
        if cpu or sagemaker_dp or "LOCAL_RANK" not in os.environ or not _chosen():
            return original(self, cpu, sagemaker_dp, backend)
        # The library chooses the device of a rank for the vendors that it knows, unless the variable names one.
        openreg.set_device(os.environ[_VARIABLE])
        return backend or "cpu:gloo,openreg:staged", DistributedType.MULTI_GPU

    return prepare


_REPLACEMENTS = (
    _library.Replacement("accelerate.utils.modeling", "get_max_memory", "max_memory", _get_max_memory),
    _library.Replacement("accelerate.accelerator.Accelerator", "__init__", "self device_placement", _create),
    _library.Replacement(
        "accelerate.state.PartialState", "_prepare_backend", "self cpu sagemaker_dp backend", _prepare_backend
    ),
)
# LITERALINCLUDE END: accelerate-processes
