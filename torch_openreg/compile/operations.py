"""What generated code writes to choose a device, to read its stream, and to wait for it."""

from __future__ import annotations

from torch._inductor.codegen.common import DeviceOpOverrides


# LITERALINCLUDE START: compile-device-operations
class Operations(DeviceOpOverrides):
    """Parts of generated Python and C++. The methods for Triton and AOTInductor stay abstract."""

    def import_get_raw_stream_as(self, name: str) -> str:
        """Imports the function that returns the driver's handle of a stream."""
        return f"from torch_openreg.compile.kernel import get_raw_stream as {name}"

    def set_device(self, device_idx: int) -> str:
        """Nothing: Inductor writes it behind the guard, which has made the device current."""
        return f"pass  # openreg:{device_idx} is current"

    def synchronize(self) -> str:
        """Waits for the current device."""
        return "torch.openreg.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        """A context manager that makes a device current."""
        return f"DeviceGuard({device_idx})"

    def current_stream(self) -> str:
        """The current stream of the current device."""
        return "torch.openreg.current_stream()"

    def cpp_aoti_device_guard(self) -> str:
        """The C++ class that makes a device current."""
        return "GeneratedGuard"

    def cpp_aoti_stream_guard(self) -> str:
        """Nothing: only models of AOTInductor have a guard for a stream. PyTorch 2.14 asks for it in each wrapper."""
        return ""


# LITERALINCLUDE END: compile-device-operations
