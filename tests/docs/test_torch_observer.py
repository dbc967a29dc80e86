"""What the guide tells the weaver about PyTorch."""

from __future__ import annotations

from pathlib import Path

from docs._ext import torch_observer


def test_present_operators_are_those_of_the_surface(tmp_path: Path) -> None:
    assert torch_observer.present(tmp_path) == set()
    file = tmp_path / torch_observer.SURFACE
    file.parent.mkdir(parents=True)
    text = "[Hooks in hooks.h]\nvoid f(int a)\n\n[operators]\naten::add.out(Tensor a) -> Tensor\naten::abs: gone\n"
    file.write_text(text, encoding="utf-8")
    assert torch_observer.present(tmp_path) == {"aten::add.out", "aten::abs"}
