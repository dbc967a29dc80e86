"""`torch.openreg`: the device module, which PyTorch finds by the backend's name.

PyTorch looks functions up here by name (`torch.manual_seed` calls `manual_seed_all`, `torch.accelerator.device_count`
calls `device_count`); the rest is what users of other accelerators expect.
"""

from torch_openreg.openreg._lazy import _is_in_bad_fork as _is_in_bad_fork
from torch_openreg.openreg._lazy import _lazy_init as _lazy_init
from torch_openreg.openreg._lazy import init, is_initialized
from torch_openreg.openreg.amp import get_amp_supported_dtype
from torch_openreg.openreg.device import (
    current_device,
    device,
    device_count,
    is_available,
    set_device,
    synchronize,
)
from torch_openreg.openreg.fallback import (
    fallback_stats,
    forbid_fallback,
    is_fallback_forbidden,
    reset_fallback_stats,
    set_fallback_policy,
)
from torch_openreg.openreg.random import (
    get_rng_state,
    initial_seed,
    manual_seed,
    manual_seed_all,
    set_rng_state,
)

__all__ = [
    "current_device",
    "device",
    "device_count",
    "fallback_stats",
    "forbid_fallback",
    "get_amp_supported_dtype",
    "get_rng_state",
    "init",
    "initial_seed",
    "is_available",
    "is_fallback_forbidden",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "reset_fallback_stats",
    "set_device",
    "set_fallback_policy",
    "set_rng_state",
    "synchronize",
]


def __getattr__(name: str) -> bool:
    # torch.utils.checkpoint reads the attribute and not the function, to learn whether there is a state to keep.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
