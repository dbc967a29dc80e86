"""What Dynamo knows of the device, and what the import of the backend costs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch._dynamo.device_interface import get_interface_for_device
from torch._inductor.codegen.cpp import CppScheduling

from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE


def test_importing_the_backend_imports_no_compiler(run_process: RunProcess) -> None:
    result = run_process("""
        import sys, torch
        torch.ones(2, device="openreg").abs()
        print([name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules])
        import torch._dynamo.device_interface as interfaces
        print(interfaces.get_interface_for_device("openreg").__name__, interfaces.__loader__.__class__.__name__)
    """)
    assert result.stdout.split("\n")[:2] == ["[]", "Interface SourceFileLoader"], result.stderr


def test_a_backend_imported_after_dynamo_is_registered(run_process: RunProcess) -> None:
    result = run_process(
        """
        import torch._dynamo.device_interface as interfaces
        import torch_openreg
        print(interfaces.get_interface_for_device("openreg").__name__)
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert result.stdout == "Interface\n", result.stderr


def test_importing_dynamo_starts_no_driver(run_process: RunProcess) -> None:
    result = run_process("""
        import os, torch, torch._dynamo
        child = os.fork()
        if child == 0:
            torch.ones(2, device="openreg").cpu()
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    assert result.stdout == "0\n", result.stderr


def test_looking_for_the_classes_starts_no_driver(run_process: RunProcess) -> None:
    """Inductor looks for them whatever it compiles for, also where a process may not use the device."""
    result = run_process("""
        import warnings
        warnings.simplefilter("ignore")  # PyTorch's own, when it imports Inductor
        import torch
        from torch._dynamo.device_interface import get_interface_for_device
        from torch._inductor.codegen.common import get_scheduling_for_device, init_backend_registration
        init_backend_registration()
        print(get_scheduling_for_device("openreg") is None, get_interface_for_device("openreg:1").__name__)
        print(torch.openreg.is_initialized())
    """)
    assert result.stdout == "False Interface\nFalse\n", result.stderr


@pytest.mark.usefixtures("inductor")
def test_each_device_has_an_interface() -> None:
    assert issubclass(torch.openreg.Scheduling, CppScheduling)
    for index in range(torch.openreg.device_count()):
        assert get_interface_for_device(f"openreg:{index}") is get_interface_for_device("openreg")


def test_every_query_of_the_interface_is_answered() -> None:
    interface = get_interface_for_device("openreg")
    assert interface.is_available()
    assert interface.device_count() == torch.openreg.device_count()
    previous = interface.exchange_device(interface.device_count() - 1)
    try:
        assert interface.current_device() == interface.Worker.current_device() == interface.device_count() - 1
        current = interface.current_stream()
        assert interface.get_raw_stream(current.device_index) == current.native_handle
        stream = torch.Stream(LAST_DEVICE)
        interface._set_stream_by_id(stream.stream_id, stream.device_index, stream.device_type)
        assert interface.current_stream() == stream
        interface.set_stream(current)
        interface.synchronize()
    finally:
        assert interface.maybe_exchange_device(previous) == interface.device_count() - 1
    properties = interface.get_device_properties(0)
    assert properties == interface.Worker.get_device_properties(0) == torch.openreg.get_device_properties(0)
    assert interface.get_compute_capability() == f"{properties.major}.{properties.minor}"
    assert interface.is_dtype_supported(torch.bfloat16, including_emulation=True)
    assert interface.memory_allocated() == torch.openreg.memory_allocated()
    assert not interface.is_triton_capable()


def test_queries_inside_a_graph() -> None:
    def queries(x: Tensor) -> Tensor:
        name = torch.openreg.get_device_name()
        queried: Tensor = x * torch.openreg.device_count() + torch.openreg.current_device() + len(name)
        return queried

    compiled = torch.compile(queries, backend="eager", fullgraph=True)
    x = torch.ones(2, device=LAST_DEVICE)
    for index in range(torch.openreg.device_count()):
        with torch.openreg.device(index):
            assert torch.equal(compiled(x), queries(x))


@pytest.mark.needs("two devices")
@pytest.mark.parametrize("device", [None, "openreg", torch.device("openreg"), 0, "openreg:1"])
def test_properties_inside_a_graph_are_those_of_the_current_device(device: torch.types.Device) -> None:
    def uuid_and_name(x: Tensor) -> tuple[Tensor, str, str, tuple[int, int]]:
        properties = torch.openreg.get_device_properties(device)
        name, capability = torch.openreg.get_device_name(device), torch.openreg.get_device_capability(device)
        return x + 1, properties.uuid, name, capability

    compiled = torch.compile(uuid_and_name, backend="eager", fullgraph=True)
    x, uuids = torch.zeros(1), set()
    for index in (0, 1, 0):
        with torch.openreg.device(index):
            assert compiled(x)[1:] == uuid_and_name(x)[1:]
            uuids.add(compiled(x)[1])
    # A driver may know no UUID of its devices, as OpenCL without an extension: then all have the same.
    known = {torch.openreg.get_device_properties(index).uuid for index in range(2)}
    assert len(uuids) == (1 if device in (0, "openreg:1") else len(known))


@pytest.mark.needs("two devices")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "openreg", "inductor"])
@pytest.mark.usefixtures("inductor")
def test_an_index_in_a_block_for_another_device(backend: str) -> None:
    """What users are advised: without the index, PyTorch loses the block in all but the first backend."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        with torch.accelerator.device_index(1):
            inside = torch.zeros(2, device="openreg:1")
        return inside, torch.zeros(2, device="openreg:0"), x + 1

    found = torch.compile(function, backend=backend, fullgraph=True)(torch.ones(2, device="openreg:0"))
    assert [tensor.device.index for tensor in found] == [1, 0, 0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition"])
def test_other_backends_of_pytorch(backend: str) -> None:
    x = torch.randn(5, requires_grad=True)
    on_device = x.detach().to(LAST_DEVICE).requires_grad_()
    result = torch.compile(lambda x: (x * 2).sin().sum(), backend=backend, fullgraph=True)(on_device)
    result.backward()
    (x * 2).sin().sum().backward()
    torch.testing.assert_close(on_device.grad.cpu(), x.grad)
