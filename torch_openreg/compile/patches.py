"""Where Inductor has no interface for a device that runs generated C++: its functions are replaced, release by release.

Applied when Inductor first looks for the device's classes, which it does when it first compiles, for whatever device.
For graphs of other devices, the functions do what they did. Each patch checks that it still replaces what it was
written for.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch


# LITERALINCLUDE START: compile-patched-lists
def _name_the_backend() -> None:
    """Inductor takes a device that it does not know for one with Triton.

    Without the patch, code for Triton is generated inside the C++: rand, dropout and index_add fail.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def get_current_backend(device_type: str | None = None) -> Any:
            from torch._inductor.virtualized import V

            device_type = device_type or V.graph.get_current_device_or_throw().type
            return "cpp" if device_type == "openreg" else original(device_type)

        return get_current_backend

    _replace("get_current_backend", ("utils", "scheduler", "codegen.common", "kernel.mm_common"), make)


def _enter_the_device() -> None:
    """Generated code makes a device current, and a stream of the program, only for the devices of a fixed list.

    Without the patch, results on openreg:1 are allocated on openreg:0, and a stream in a function is a NameError.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def device_need_guard(device: str) -> Any:
            return device == "openreg" or original(device)

        return device_need_guard

    _replace("device_need_guard", ("utils", "scheduler"), make)


def _fuse_as_for_the_cpu() -> None:
    """The scheduler reorders loops of nodes that are not on the CPU, in a form that only Triton's kernels have.

    Without the patch, a reduction that is fused with what follows it fails.
    """
    from torch._inductor.scheduler import BaseSchedulerNode

    original = _found(BaseSchedulerNode, "is_cpu")

    @functools.wraps(original)
    def is_cpu(self: BaseSchedulerNode) -> bool:
        device = self.get_device()
        return bool(original(self)) or (device is not None and device.type == "openreg")

    BaseSchedulerNode.is_cpu = is_cpu  # type: ignore[method-assign]


# LITERALINCLUDE END: compile-patched-lists


# LITERALINCLUDE START: compile-patched-numbers
def _compute_on_the_device() -> None:
    """Where a CPU tensor without dimensions meets one of a device, Inductor computes on the device: if it is a GPU.

    Without the patch, `2.5 - x` of a tensor or of a float that changes becomes a kernel of the CPU, which reads the
    device's memory: the process ends. So it does in `addcmul`, which takes the device of its first operand. And
    `number * torch.ones(3, device="openreg")`, of which no memory is read, returns a tensor of the CPU.
    """
    from torch._inductor import ir, lowering
    from torch._inductor.virtualized import V

    is_gpu = _found(lowering, "is_gpu")  # Its only use there is to choose the device of an operator with several.
    lowering.is_gpu = lambda device: device == "openreg" or is_gpu(device)  # type: ignore[attr-defined]
    original = _found(ir.Loops, "create")
    if "create" in vars(ir.Pointwise):
        raise _moved("torch._inductor.ir.Pointwise.create")  # NOT PROVEN: needs another release

    def of_the_device(names: Iterable[str]) -> torch.device | None:
        buffers = filter(None, map(V.graph.try_get_buffer, names))
        devices = (buffer.get_device() for buffer in buffers)
        return next((device for device in devices if device is not None and device.type == "openreg"), None)

    def create(cls: type[ir.Pointwise], /, **named: Any) -> Any:
        if named["device"].type == "cpu" and "openreg" in V.graph.device_types:
            loops = cls(**{name: named[name] for name in ("device", "dtype", "inner_fn", "ranges")})
            named["device"] = of_the_device(loops.get_read_names()) or named["device"]
        return original.__get__(None, cls)(**named)

    ir.Pointwise.create = classmethod(create)  # type: ignore[assignment]


# LITERALINCLUDE END: compile-patched-numbers


# LITERALINCLUDE START: compile-patched-options
def _combine_no_kernels() -> None:
    """The option `combo_kernels` puts kernels that do not depend on each other into one of Triton's.

    Inductor leaves out the CPU's and those of mps, and has a public hook for the choice. Without the patch, the option
    fails.
    """
    from torch._inductor.scheduler import ForeachKernelSchedulerNode

    choose = ForeachKernelSchedulerNode.group_algorithm_for_combo_kernels

    def of_other_devices(scheduler: Any) -> list[list[Any]]:
        def is_other(node: Any) -> bool:
            device = node.get_device()
            return device is None or device.type != "openreg"

        return [list(filter(is_other, nodes)) for nodes in choose(scheduler)]

    ForeachKernelSchedulerNode.set_group_algorithm_for_combo_kernels(of_other_devices)


def _measure_no_fusions() -> None:
    """The option `benchmark_fusion` measures kernels of Triton, fused and apart, and leaves out the CPU's.

    Without the patch, the option fails where there is no Triton.
    """
    from torch._inductor.scheduler import BaseSchedulerNode, FusionResult, Scheduler

    original = _found(Scheduler, "speedup_by_fusion")

    @functools.wraps(original)
    def speedup_by_fusion(self: Scheduler, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> FusionResult:
        device = node1.get_nodes()[0].get_device()
        is_ours = device is not None and device.type == "openreg"
        fused: FusionResult = FusionResult.fuse(True) if is_ours else original(self, node1, node2)
        return fused

    Scheduler.speedup_by_fusion = speedup_by_fusion  # type: ignore[method-assign]


# LITERALINCLUDE END: compile-patched-options


# LITERALINCLUDE START: compile-patched-pass
def _compose_flex_attention() -> None:
    """Inductor registers the classes of a device by a function that also takes a pass over graphs, and gives it none.

    Without the patch, a graph with flex attention fails: Inductor has no template for the device.
    """
    from torch_openreg.compile.flex_pass import ComposedFlexAttention

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def register_backend_for_device(device: str, *classes: Any, **options: Any) -> None:
            if device == "openreg":
                options["device_custom_pass"] = ComposedFlexAttention()
            original(device, *classes, **options)

        return register_backend_for_device

    _replace("register_backend_for_device", ("codegen.common",), make)


# LITERALINCLUDE END: compile-patched-pass


# LITERALINCLUDE START: compile-patched-values
def _generate_as_for_the_cpu() -> None:
    """Some choices are those of the generator, and Inductor asks for the device instead: "cpu" means C++.

    Without the patch, each row of a softmax computes its exponentials twice, which is cheaper on a GPU than to read
    them again; and `x.t().argmax()` is an index in the order of the memory.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def get_device_type(x: Any) -> str | None:
            found = original(x)
            return "cpu" if found == "openreg" else found

        return get_device_type

    _replace("get_device_type", ("ir",), make)


def _divide_by_constants() -> None:
    """For a device other than the CPU, Inductor multiplies by the reciprocal of a constant, which is rounded twice.

    Without the patch, `(x / 41).floor()` differs from eager mode for one multiple of 41 in three.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def get_constant_value(x: Any) -> Any:
            found = original(x)
            is_ours = found is not None and found.device is not None and found.device.type == "openreg"
            return None if is_ours else found

        return get_constant_value

    _replace("get_constant_value", ("lowering",), make)


# LITERALINCLUDE END: compile-patched-values


# LITERALINCLUDE START: compile-patched-times
def _write_parts_apart() -> None:
    """On the CPU, each part of a `cat` has a loop of its own, which is vectorized, and so has what pads a tensor.

    Without the patch, one loop asks for each element which part it belongs to: a `cat` of two expressions takes up to
    20 times as long as on the CPU.
    """
    from torch._inductor import config, lowering

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def cat(inputs: Sequence[Any], dim: int = 0) -> Any:
            if inputs[0].get_device().type != "openreg":
                return original(inputs, dim)
            with config.patch(max_pointwise_cat_inputs=0, max_complex_pointwise_cat_inputs=0):
                return original(inputs, dim)

        return cat

    def make_pad(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def pad_as_cat(x: Any, *others: Any) -> Any:
            return None if x.get_device().type == "openreg" else original(x, *others)

        return pad_as_cat

    for operator in (torch.ops.aten.cat, torch.ops.aten.cat.default):
        lowered = lowering.lowerings.get(operator)
        if lowered is None or not lowered.__module__.startswith("torch._inductor."):
            raise _moved(f"the lowering of {operator}")  # NOT PROVEN: as above
        lowering.lowerings[operator] = make(lowered)
    _replace("_pad_as_cat", ("lowering",), make_pad)


def _add_up_in_threads() -> None:
    """On the CPU, sums by index are the operator's if there are several threads, since generated code adds atomically.

    Without the patch, `scatter_add` takes three times as long as the eager operator.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def use_scatter_fallback(
            operator: Any, reduction: Any, dtype: Any, of_source: Any, device_type: str, *others: Any
        ) -> bool:
            like = "cpu" if device_type == "openreg" else device_type
            return bool(original(operator, reduction, dtype, of_source, like, *others))

        return use_scatter_fallback

    _replace("use_scatter_fallback", ("utils", "lowering"), make)


# As many elements as a core's cache holds of the two or three tensors that a kernel with a variance reads and writes.
_IN_CACHE = 1 << 18


def _read_short_rows_twice() -> None:
    """For a variance, Inductor reads short rows twice on the CPU, and once, by Welford's method, everywhere else.

    The first is faster in vectors, and the second where reading is slow: here, if the tensor does not fit in the cache,
    or if its size is not known.
    Without the patch, a layer norm of 256 by 256 takes 1.7 times as long as on the CPU.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def use_two_step_variance(x: Any, *others: Any, **named: Any) -> Any:
            from torch._inductor import config

            if x.get_device().type != "openreg":
                return original(x, *others, **named)
            elements = x.get_numel()
            if not elements.is_number or elements > _IN_CACHE:
                return original(x, *others, **named)
            with config.patch(unroll_reductions_threshold=config.cpp.use_two_step_variance_threshold):
                return original(x, *others, **named)

        return use_two_step_variance

    _replace("use_two_step_variance", ("lowering",), make)


def _replay_graphs() -> None:
    """Inductor captures the work of a compiled graph for CUDA alone.

    Without the patch, `mode="reduce-overhead"` launches the kernels one by one.
    """
    from torch._inductor.virtualized import V

    from torch_openreg.compile.replay import replay_graph, why_not_captured

    def check(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def check_devices(nodes: dict[torch.device, Any]) -> Any:
            devices = [device for device in nodes if device.type != "meta"]
            is_ours = any(device.type == "openreg" for device in devices)
            return why_not_captured(devices, V.graph.module) if is_ours else original(nodes)

        return check_devices

    def after_compiling(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def post_compile(inputs: Any, compiled_graph: Any, cudagraphs: Any, *others: Any) -> Any:
            is_ours = "openreg" in compiled_graph.device_types
            arguments = (compiled_graph, cudagraphs)
            return replay_graph(*arguments) if is_ours else original(inputs, *arguments, *others)

        return post_compile

    _replace("check_multiple_devices_or_any_cpu_nodes", ("cudagraph_utils",), check)
    for name in ("cudagraph_post_compile", "cudagraph_partition_post_compile"):
        _replace(name, ("output_code",), after_compiling)


# LITERALINCLUDE END: compile-patched-times

# LITERALINCLUDE START: compile-patch-list
_ALL = (
    # Without these, something fails.
    _name_the_backend,
    _enter_the_device,
    _fuse_as_for_the_cpu,
    _compute_on_the_device,
    _combine_no_kernels,
    _measure_no_fusions,
    _compose_flex_attention,
    # Without these, something is wrong.
    _generate_as_for_the_cpu,
    _divide_by_constants,
    # Without these, something is slow.
    _read_short_rows_twice,
    _write_parts_apart,
    _add_up_in_threads,
    _replay_graphs,
)
PATCHES: dict[str, tuple[Callable[[], None], ...]] = {"2.13": _ALL, "2.14": _ALL}


def series() -> str:
    """The release of the installed PyTorch, without what changes no interface: `"2.13"`."""
    return ".".join(torch.__version__.split(".")[:2])


@functools.cache
def patch_inductor() -> None:
    """Applies the patches of the installed PyTorch, once.

    Raises:
        RuntimeError: if there is no list for this release, or if what a patch replaces is not where it was.
    """
    release = series()
    if release not in PATCHES:
        raise RuntimeError(
            f"openreg: Inductor of torch {release} was not tried with this backend, only that of {', '.join(PATCHES)}: "
            "use torch.compile with the backend 'aot_eager', or add the release to torch_openreg/compile/patches.py"
        )
    for patch in PATCHES[release]:
        patch()


# LITERALINCLUDE END: compile-patch-list


# LITERALINCLUDE START: compile-checked-patches
def _replace(name: str, readers: Sequence[str], make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replaces a function of Inductor in all modules that hold it: the first defines it, the others import it."""
    modules = [importlib.import_module(f"torch._inductor.{reader}") for reader in readers]
    original = _found(modules[0], name)
    for module in modules:
        if _found(module, name) is not original:
            raise _moved(f"{module.__name__}.{name}")
    for module in modules:
        setattr(module, name, make(original))


def _found(owner: Any, name: str) -> Callable[..., Any]:
    """The function that a patch replaces: defined in `owner`, and no patch of another package."""
    function: Callable[..., Any] | None = vars(owner).get(name)
    if function is None or not function.__module__.startswith("torch._inductor."):
        raise _moved(f"{owner.__name__}.{name}")
    return function


def _moved(place: str) -> RuntimeError:
    return RuntimeError(
        f"openreg: {place} of torch {torch.__version__} is not the function that the backend replaces; see "
        "torch_openreg/compile/patches.py"
    )


# LITERALINCLUDE END: compile-checked-patches
