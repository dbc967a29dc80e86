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


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition"])
def test_other_backends_of_pytorch(backend: str) -> None:
    x = torch.randn(5, requires_grad=True)
    on_device = x.detach().to(LAST_DEVICE).requires_grad_()
    result = torch.compile(lambda x: (x * 2).sin().sum(), backend=backend, fullgraph=True)(on_device)
    result.backward()
    (x * 2).sin().sum().backward()
    torch.testing.assert_close(on_device.grad.cpu(), x.grad)
