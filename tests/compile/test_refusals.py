"""What is not supported raises an error that names it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import Unsupported

from tests import offers
from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE
from torch_openreg import _C


@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")  # PyTorch's own, in torch.export
@pytest.mark.usefixtures("inductor")
def test_ahead_of_time_compilation() -> None:
    class Double(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2

    exported = torch.export.export(Double(), (torch.ones(2, device=LAST_DEVICE),))
    with pytest.raises(Exception, match="openreg: the runtime of AOTInductor loads models for cpu, cuda, xpu and mps"):
        torch._inductor.aoti_compile_and_package(exported)


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.openreg.synchronize(),
        lambda: torch.openreg.set_device(LAST_DEVICE),
        lambda: torch.openreg.device(LAST_DEVICE).__enter__(),
    ],
)
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace:UserWarning")  # what the test is about
@pytest.mark.usefixtures("inductor")
def test_calls_that_break_a_graph(call: Callable[[], None]) -> None:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        call()
        return y * 2

    x = torch.ones(2, device=LAST_DEVICE)
    with pytest.raises(Unsupported, match="Dynamo does not know how to trace the builtin `torch_openreg"):
        torch.compile(function, fullgraph=True)(x)
    with torch.openreg.device(LAST_DEVICE):
        assert torch.compile(function)(x).tolist() == [4.0] * 2


@pytest.mark.usefixtures("inductor")
def test_an_index_out_of_range_is_an_error() -> None:
    compiled = torch.compile(lambda x, index: x[index] * 2, fullgraph=True)
    index = torch.tensor([0, 77], device=LAST_DEVICE)
    with pytest.raises(RuntimeError, match="index out of bounds"):
        compiled(torch.ones(6, device=LAST_DEVICE), index).cpu()


def test_arguments_of_a_launch() -> None:
    offers.require("host kernels", "two devices")
    with pytest.raises(
        RuntimeError, match="'k' runs on openreg:1 but got a tensor on openreg:0; move it to the kernel"
    ):
        _C._launch_compiled(1, "k", 1, (torch.ones(2, device="openreg:0"),))
    with pytest.raises(RuntimeError, match="'k' got a CPU tensor of 2 elements; only one element can be passed"):
        _C._launch_compiled(1, "k", 0, (torch.ones(2),))
    with pytest.raises(TypeError, match="a generated kernel takes tensors, int and float, not str"):
        _C._launch_compiled(1, "k", 0, ("text",))  # type: ignore[arg-type]


def test_a_build_without_host_kernels() -> None:
    if offers.has_host_kernels():
        pytest.skip("the build has host kernels")
    with pytest.raises(Exception, match="nothing in this build runs host code on the device"):
        torch.compile(lambda x: x + 1)(torch.ones(2, device=LAST_DEVICE))
    with pytest.raises(NotImplementedError, match="nothing launches the generated kernel 'k'"):
        _C._launch_compiled(1, "k", 0, ())


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (
            "import torch._inductor.scheduler as m; m.get_current_backend = print",
            "torch._inductor.scheduler.get_current_backend of torch",
        ),
        (
            "import torch._inductor.scheduler as m; del m.device_need_guard",
            "torch._inductor.scheduler.device_need_guard of torch",
        ),
        (
            "from torch._inductor.scheduler import BaseSchedulerNode as m; del m.is_cpu",
            "BaseSchedulerNode.is_cpu of torch",
        ),
        (
            "from torch_openreg.compile import patches as m; m.PATCHES = {'1.0': ()}",
            "was not tried with this backend, only that of 1.0",
        ),
    ],
    ids=["replaced", "gone", "method gone", "other release"],
)
def test_a_patch_that_no_longer_fits(run_process: RunProcess, plant: str, message: str) -> None:
    """Inductor ignores a RuntimeError of the lookup, so each graph of the device raises it."""
    result = run_process(f"""
        import warnings
        warnings.simplefilter("ignore")  # PyTorch's own, when it imports Inductor
        import torch
        {plant}
        for number in range(2):
            try:
                torch.compile(lambda x: x * 2 + number)(torch.ones(2, device="{LAST_DEVICE}"))
            except Exception as error:
                print(str(error).partition("\\n")[0])
    """)
    first, second = result.stdout.splitlines()
    assert message in first, result.stderr
    assert second == first


def test_where_the_device_is_refused_the_cpu_is_compiled_for(run_process: RunProcess) -> None:
    result = run_process(f"""
        import sys
        import warnings
        warnings.simplefilter("ignore")  # PyTorch's own, when it imports Inductor
        import torch
        from torch_openreg.compile import patches
        patches.PATCHES = {{}}
        # As in a release that has moved what Dynamo's registration replaces.
        del torch._C._conv_determine_backend_memory_format
        sys.modules["torch_openreg.compile.random_state"] = None
        print(torch.compile(lambda x: torch.rand_like(x) * 0 + x.mean())(torch.ones(2)).tolist())
        print(torch.compile(lambda x: x * 2, backend="aot_eager")(torch.ones(2, device="{LAST_DEVICE}")).tolist())
    """)
    assert result.stdout == "[1.0, 1.0]\n[2.0, 2.0]\n", result.stderr


@pytest.mark.usefixtures("inductor")
def test_no_kernels_are_combined() -> None:
    """The option has kernels of Triton alone. On the CPU, Inductor ignores it."""

    def several(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x + 1, y * 2, (x * 3).sum(0)

    x, y = torch.randn(6, 5), torch.randn(7)
    results = torch.compile(several, options={"combo_kernels": True})(x.to(LAST_DEVICE), y.to(LAST_DEVICE))
    for result, expected in zip(results, several(x, y), strict=True):
        torch.testing.assert_close(result.cpu(), expected)
