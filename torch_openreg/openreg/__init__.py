"""`torch.openreg`: the device module, which PyTorch finds by the backend's name.

PyTorch looks up functions here by name (`torch.manual_seed` calls `manual_seed_all`, `torch.accelerator.device_count`
calls `device_count`); the rest is what users of other accelerators expect.
"""

from typing import TYPE_CHECKING

from torch_openreg.openreg import _gpu_trace as _gpu_trace
from torch_openreg.openreg import _utils as _utils
from torch_openreg.openreg import profiler
from torch_openreg.openreg._absent import LATE, missing
from torch_openreg.openreg._lazy import _is_in_bad_fork as _is_in_bad_fork
from torch_openreg.openreg._lazy import _lazy_call as _lazy_call
from torch_openreg.openreg._lazy import _lazy_init as _lazy_init
from torch_openreg.openreg._lazy import init, is_initialized
from torch_openreg.openreg.amp import get_amp_supported_dtype
from torch_openreg.openreg.busy import _sleep as _sleep
from torch_openreg.openreg.device import (
    current_device,
    device,
    device_count,
    is_available,
    set_device,
    synchronize,
)
from torch_openreg.openreg.exchange import _exchange_device as _exchange_device
from torch_openreg.openreg.exchange import _maybe_exchange_device as _maybe_exchange_device
from torch_openreg.openreg.exchange import device_of
from torch_openreg.openreg.fallback import (
    fallback_stats,
    forbid_fallback,
    is_fallback_forbidden,
    reset_fallback_stats,
    set_fallback_policy,
)
from torch_openreg.openreg.graphed_callables import make_graphed_callables
from torch_openreg.openreg.graphs import graph_pool_handle, is_current_stream_capturing
from torch_openreg.openreg.interprocess import InterprocessEvent
from torch_openreg.openreg.kernel_source import kernel_source
from torch_openreg.openreg.memory import (
    empty_cache,
    get_per_process_memory_fraction,
    host_memory_stats,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from torch_openreg.openreg.properties import (
    DeviceProperties,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_bf16_supported,
)
from torch_openreg.openreg.races import RaceError, detect_races
from torch_openreg.openreg.random import _get_generator as _get_generator
from torch_openreg.openreg.random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_openreg.openreg.streams import (
    Event,
    Stream,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
    stream_priority,
)
from torch_openreg.openreg.sync_debug import get_sync_debug_mode, set_sync_debug_mode

__all__ = [
    "DeviceProperties",
    "Event",
    "InterprocessEvent",
    "RaceError",
    "Stream",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "detect_races",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "fallback_stats",
    "forbid_fallback",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph_pool_handle",
    "host_memory_stats",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_fallback_forbidden",
    "is_initialized",
    "kernel_source",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "profiler",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_fallback_stats",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_fallback_policy",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "stream_priority",
    "synchronize",
]


# LITERALINCLUDE START: frontend-module-getattr
# torch.utils.checkpoint reads this attribute, not the function, to decide whether there is a state to save.
_initialized: bool

if not TYPE_CHECKING:  # with it, a type checker would take every misspelled name for one that exists

    def __getattr__(name: str) -> object:
        if name == "_initialized":
            return is_initialized()
        if name in LATE:
            return LATE[name]()
        raise missing(name)


# LITERALINCLUDE END: frontend-module-getattr
