"""Assigns the instructions of a call to parts: dispatcher, autograd, launches, locks and so on.

Each instruction counts for the function that contains it, and each function belongs to one part: the first whose
pattern is found in ``library:function``. A lock counts as a lock, whoever takes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from instructions.callgrind import Profile


class Part(NamedTuple):
    """A part of a call: the functions that belong to it, and those whose calls are counted, in a unit (or none)."""

    name: str
    functions: str
    unit: str = ""
    counted: str = ""


# A function of PyTorch's loops is compiled for a set of instructions, which is a part of its name.
_LOOPS = (
    r":mkl_|Sleef_|::(AVX2|AVX512|DEFAULT)::|vectorized_|_lastdim|VectorizedLoop2d|cascade_sum|basic_loop|cpublas|"
    r"ProductCall<\w+> ?>\(.*_FUN$|"  # the kernel of a matrix product
    r"(ElementwiseLoop|ReductionLoop|Rows)<.*::(visit|run|reduce|gather|dense_row|strided_row|converting_row)|"
    r":__?mem(cpy|set|move)|libm\.so"
)
PARTS = (
    Part("arithmetic of kernels", _LOOPS),
    Part("locks", r":_*pthread_(mutex|rwlock)_|:_*lll_lock", "locks", r":_*pthread_(mutex|rwlock)_(rd|wr)?lock"),
    Part(
        "thread hand-offs",
        r"ReadyQueue|pthread_cond|condition_variable|futex|:syscall|Timeline::|sched_yield|ivalue::Future",
        "wake-ups",
        r":_*pthread_cond_(signal|broadcast)|Timeline::wake_all",
    ),
    Part(
        "memory of the host",
        r"libc\.so\.6:(_int_\w+|_mid_memalign\S*|\w*malloc\w*|free|cfree|calloc|realloc|posix_memalign|aligned_alloc|"
        r"unlink_chunk\S*|tcache\w*|systrim\S*)$|operator (new|delete)",
        "allocations of the host",
        r"libc\.so\.6:(malloc|calloc|realloc|posix_memalign|aligned_alloc)$",
    ),
    Part(
        "memory of tensors",
        r"openreg::(BlockPool|PoolStatistics|\(anonymous namespace\)::(CachingAllocator|round_up|settings))|"
        r"BlockFigures|MemoryHistory|AcceleratorAllocatorConfig|c10::(alloc_cpu|free_cpu|\w*CPUAllocator|ProfiledCPUMemoryReporter|"
        r"GetAllocator|GetCPUAllocator|memoryProfilingEnabled)",
        "allocations of tensors",
        r"CachingAllocator::allocate|:c10::alloc_cpu",
    ),
    Part(
        "address checks",
        r"orGetHostAlias|host_alias|check_has_memory|get_driver_in_kernel|AddressSpace|operand_bytes|check_range",
        "address checks",
        r":orGetHostAlias",
    ),
    Part(
        "device and stream",
        r"openreg::(resolve_device_index|device_count|current_device|current_stream|is_in_bad_fork|unless_current|"
        r"first_device|OnDevice|check_one_device|capture_of|is_capturing|capture_id|wait_for_stream)|"
        r"default_stream_handle|orStreamGetCaptureInfo|:or[GS]etDevice|DeviceGuard|GuardImpl|check_and_update_common",
        "device queries",
        r":orGetDevice|:orSetDevice|:orStreamGetCaptureInfo",
    ),
    Part(
        "library",
        r"LibraryScope|KernelArguments|HostIterator|HostLoopCall|launch_host_loop|launch_library|LibraryLoop|host_view|"
        r"openreg::(Known)?Dtypes",
        "library calls",
        r"openreg::launch_(library|in_place|host_loop)<",
    ),
    Part(
        "launches",
        r"libopenreg\.so|openreg::launch|KernelCall|openreg::\(anonymous namespace\)::(launch_\w+|\w+_kernel)$",
        "launches",
        r":orLaunchHostKernel|:orMemcpyAsync",
    ),
    Part("thread-local variables", r":__tls_get_addr", "look-ups of thread-local variables", r":__tls_get_addr"),
    Part(
        "autograd",
        r"torch::(autograd|ADInplaceOrView)|Autograd(Meta|State)|ThreadLocalState|at::autocast|GradMode|"
        r"SavedTensorDefaultHooks|PythonTorchFunctionTLS|TorchDispatchModeTLS|ThreadLocalPythonObjects|SafePyObject",
        "kernels of autograd",
        r":torch::autograd::VariableType::|::\w+Backward\d*::apply",
    ),
    Part(
        "tensor objects",
        r"TensorImpl|StorageImpl|intrusive_ptr|at::detail::|TensorBase|c10::SmallVector|SizesAndStrides",
    ),
    Part(
        "dispatcher",
        r"at::_ops::|c10::(Dispatcher|impl)|OperatorEntry|KernelFunction|RecordFunction|StepCallbacks|CallbackManager|"
        r"CacheEntry|wrap_kernel_functor|BoxedKernel|::wrapper_|DispatchKey",
        "dispatches",
        r":at::_ops::\w+::(call|redispatch)",
    ),
    Part("plans of loops", r"TensorIterator|at::meta::|structured_|OperandInfo|overlap"),
)
REST = "everything else"


def without_arguments(function: str) -> str:
    """The name without its last list of arguments, whose types say nothing about what the function does."""
    end = function.rfind(")") + 1
    depth = 0
    for at in range(end - 1, -1, -1):
        depth += (function[at] == ")") - (function[at] == "(")
        if depth == 0:
            return function if function[at:end] == "(anonymous namespace)" else function[:at]
    return function


@cache
def part_of(function: str) -> str:
    """The name of the part to which ``library:function`` belongs."""
    name = without_arguments(function)
    return next((part.name for part in PARTS if re.search(part.functions, name)), REST)


def split(own: Mapping[str, float]) -> dict[str, float]:
    """The instructions of each part, in their order; together, all instructions."""
    parts = dict.fromkeys((*(part.name for part in PARTS), REST), 0.0)
    for function, count in own.items():
        parts[part_of(function)] += count
    return parts


def calls(profile: Profile) -> dict[str, float]:
    """By unit, how often the counted functions of each part that has any are called."""
    return {
        part.unit: sum(count for name, count in profile.calls.items() if re.search(part.counted, name))
        for part in PARTS
        if part.unit
    }
