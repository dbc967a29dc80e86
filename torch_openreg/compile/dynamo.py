"""The device as Dynamo and Inductor see it: `DeviceInterface`, and the functions that Dynamo evaluates while it traces.

Imported at the end of the import of `torch._dynamo.device_interface`, never at the import of torch_openreg.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device
from torch._prims_common import suggest_memory_format

from torch_openreg import openreg
from torch_openreg.compile.after_import import after_import
from torch_openreg.compile.patches import PATCHES, series
from torch_openreg.openreg._utils import _index
from torch_openreg.openreg.properties import DeviceProperties


# LITERALINCLUDE START: compile-device-interface
class Interface(DeviceInterface):
    """Every query of the compiler about the device; each is a function of `torch.openreg`."""

    device = openreg.device
    Event = torch.Event
    Stream = torch.Stream

    class Worker(DeviceInterface.Worker):
        """Queries of a process that Inductor starts to compile in. The driver starts there as in any process."""

        set_device = staticmethod(openreg.set_device)
        current_device = staticmethod(openreg.current_device)
        get_device_properties = staticmethod(openreg.get_device_properties)

    current_device = staticmethod(openreg.current_device)
    set_device = staticmethod(openreg.set_device)  # type: ignore[assignment]
    exchange_device = staticmethod(openreg._exchange_device)
    maybe_exchange_device = staticmethod(openreg._maybe_exchange_device)
    device_count = staticmethod(openreg.device_count)
    is_available = staticmethod(openreg.is_available)
    synchronize = staticmethod(openreg.synchronize)
    stream = staticmethod(openreg.stream)
    current_stream = staticmethod(openreg.current_stream)
    set_stream = staticmethod(openreg.set_stream)
    is_bf16_supported = staticmethod(openreg.is_bf16_supported)
    memory_allocated = staticmethod(openreg.memory_allocated)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        openreg.set_stream(torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        """The driver's handle of the current stream, for code that calls the driver."""
        return int(openreg.current_stream(device_idx).native_handle)  # type: ignore[attr-defined]

    @classmethod
    def get_device_properties(cls, device: torch.types.Device = None) -> DeviceProperties:
        """What a program can know about a device before it runs anything there."""
        return openreg.get_device_properties(device)

    @staticmethod
    def get_compute_capability(device: torch.types.Device = None) -> str:
        """A text that differs between devices for which different code is generated; it is part of cache keys."""
        properties = openreg.get_device_properties(device)
        return f"{properties.major}.{properties.minor}"


# LITERALINCLUDE END: compile-device-interface


# LITERALINCLUDE START: compile-register-interface
# A device's index has eight bits in PyTorch, and is not negative. How many there are, only the driver knows.
_INDICES = range(128)


def _properties_of(index: int) -> DeviceProperties:
    return openreg.get_device_properties(index)


# Their results never change in a process, so the compiler may call them once, while it traces.
_CONSTANT = (openreg.device_count, openreg.is_available, openreg.is_bf16_supported, _properties_of)


def _traced_properties(device: torch.device | int | str | None = None) -> DeviceProperties:
    """What is traced instead of `get_device_properties`. Dynamo compiles again where another device is current."""
    index = _index(device)  # NOT PROVEN: traced, not run
    return _properties_of(torch.accelerator.current_device_index() if index == -1 else index)  # NOT PROVEN: likewise


def register() -> None:
    """Registers the interface for the device type, and for each device by its number.

    It must not start the driver: a program may fork after an import.
    """
    for name in ("openreg", *(f"openreg:{index}" for index in _INDICES)):
        register_interface_for_device(name, Interface)
    for function in _CONSTANT:
        # torch.compiler.assume_constant_result sets the same, but this runs before Dynamo has been imported whole.
        vars(function)["_dynamo_marked_constant"] = True
    after_import("torch._dynamo.polyfills.loader", _trace_properties)
    after_import("torch._dynamo.variables.optimizer", _keep_steps)
    if series() in PATCHES:
        # These two replace what a release that was not tried may have moved, and an error here would end every import
        # of Dynamo, the CPU's too.
        from torch_openreg.compile.random_state import repeat_random_operators

        _predict_convolutions()
        repeat_random_operators()


def _trace_properties() -> None:
    torch.compiler.substitute_in_graph(openreg.get_device_properties)(_traced_properties)


# LITERALINCLUDE END: compile-register-interface


# LITERALINCLUDE START: compile-convolutions
def _predict_convolutions() -> None:
    """Makes fake tensors predict the strides that convolutions of the device have.

    PyTorch has a list of the backends whose convolutions keep channels last, and takes all others for contiguous. Those
    of this device keep it, as on the CPU. Without the patch, generated code fails: it checks the strides of a result.
    """
    original = torch._C._conv_determine_backend_memory_format

    @functools.wraps(original)
    def memory_format(x: torch.Tensor, weight: torch.Tensor, backend: Any) -> torch.memory_format:
        if x.device.type != "openreg":
            return original(x, weight, backend)
        of_input = suggest_memory_format(x)
        return suggest_memory_format(weight) if of_input == torch.contiguous_format else of_input

    torch._C._conv_determine_backend_memory_format = memory_format  # type: ignore[assignment]


# LITERALINCLUDE END: compile-convolutions


# LITERALINCLUDE START: compile-optimizer-steps
def _keep_steps() -> None:
    """Leaves the step numbers of an optimizer beside its other numbers, on the host.

    When Dynamo traces an optimizer again, it moves the steps to the device of the parameters. That fits CUDA and XPU,
    for whose parameters it makes the optimizer capturable, so that all its state is there. Without the patch, NAdam
    with a scheduler fails: it multiplies a number of the host by one of the device.
    """
    from torch._dynamo.variables.optimizer import OptimizerVariable

    # A release without it moves no steps, and an error here would end the import of Dynamo, the CPU's too.
    original = getattr(OptimizerVariable, "move_step_if_cpu", lambda _self: None)

    @functools.wraps(original)
    def move_step_if_cpu(self: OptimizerVariable) -> None:
        on_host = [group for group in self.value.param_groups if not (group.get("capturable") or group.get("fused"))]
        if not any(parameter.device.type == "openreg" for group in on_host for parameter in group["params"]):
            original(self)

    OptimizerVariable.move_step_if_cpu = move_step_if_cpu  # type: ignore[method-assign]


# LITERALINCLUDE END: compile-optimizer-steps
