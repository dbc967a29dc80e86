"""Exported programs: recorded on the CPU or on the device, moved, saved, loaded, and compiled where they are loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.export.passes import move_to_device_pass

from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE

DEVICE = torch.device(LAST_DEVICE)

pytestmark = [
    pytest.mark.usefixtures("nothing_falls_back"),
    pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning"),  # PyTorch's own, in torch.export
]


class Model(nn.Module):
    """Has parameters, a buffer, a constant, and makes tensors of its own."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(3, 4, 3)
        self.norm = nn.BatchNorm1d(4)
        self.linear = nn.Linear(4, 2)
        self.register_buffer("scale", torch.full((4,), 1.5))
        self.constant = torch.arange(4.0)

    def forward(self, x: Tensor) -> Tensor:
        """Returns (batch, 2) for x of (batch, 3, length)."""
        features = self.norm(self.convolution(x)).relu().mean(-1)
        steps = torch.arange(4, device=x.device) + torch.ones(4, device=x.device)
        return nn.functional.log_softmax(self.linear(features * self.scale + self.constant * steps), -1)


@pytest.fixture
def model() -> Model:
    torch.manual_seed(0)
    return Model().eval()


def on_device(model: Model) -> ExportedProgram:
    """The model's program, with any batch, moved to the device."""
    exported = export(model, (torch.randn(3, 3, 9),), dynamic_shapes=({0: Dim.DYNAMIC},))
    return move_to_device_pass(exported, DEVICE)


def assert_runs(program: Callable[[Tensor], Tensor], model: Model) -> None:
    for batch in (2, 5):
        x = torch.randn(batch, 3, 9)
        result = program(x.to(DEVICE))
        assert result.device == DEVICE
        torch.testing.assert_close(result.cpu(), model(x))


def test_a_program_of_the_cpu_moves_to_the_device(model: Model) -> None:
    moved = on_device(model)
    assert {tensor.device for tensor in [*moved.state_dict.values(), *moved.constants.values()]} == {DEVICE}
    assert_runs(moved.module(), model)


def test_a_program_of_the_device_is_the_same(model: Model) -> None:
    x = torch.randn(2, 3, 9)
    expected = model(x)
    there = model.to(DEVICE)
    there.constant = there.constant.to(DEVICE)
    exported = export(there, (x.to(DEVICE),))
    for program in (exported, exported.run_decompositions()):
        torch.testing.assert_close(program.module()(x.to(DEVICE)).cpu(), expected)


@pytest.mark.usefixtures("inductor")
def test_a_saved_program_is_compiled_where_it_is_loaded(model: Model, tmp_path: Path) -> None:
    torch.export.save(on_device(model), tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2").module()
    assert {tensor.device for tensor in loaded.state_dict().values()} == {DEVICE}
    assert_runs(loaded, model)
    assert_runs(torch.compile(loaded, fullgraph=True), model)


def test_a_program_says_which_device_it_needs(model: Model, run_process: RunProcess, tmp_path: Path) -> None:
    file = tmp_path / "program.pt2"
    torch.export.save(on_device(model), file)
    load = f"import torch; torch.export.load({str(file)!r})"
    ran = run_process(load, status=1, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert "device type at start of device string: openreg" in ran.stderr
    run_process(load)
