"""The project's own static checks find what they are for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import compile_alone
import layers
import pytest


@pytest.mark.parametrize(
    ("layer", "included", "fault"),
    [
        ("driver", "c10/core/Device.h", "the driver knows nothing of PyTorch, not c10/core/Device.h"),
        ("runtime", "aten/copy.h", "runtime must not look up or sideways at aten/copy.h"),
        ("stable", "runtime/stream.h", "stable must not look up or sideways at runtime/stream.h"),
        ("stable", "driver/openreg.h", None),
        ("amp", "profiler/events.h", "amp must not look up or sideways at profiler/events.h"),
        ("aten", "ATen/ATen.h", "ATen/ATen.h is too wide: include what is used"),
        ("aten", "driver/openreg.h", None),
        ("aten", "aten/strided_copy.h", None),
        ("runtime", "vector", None),
        ("driver", "openreg.h", None),
    ],
)
def test_include_against_the_layers(layer: str, included: str, fault: str | None) -> None:
    assert layers.include_fault(layer, included) == fault


def test_fault_names_file_and_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    source = Path("csrc", "runtime", "device.cpp")
    source.parent.mkdir(parents=True)
    source.write_text('#include <vector>\n#  include "aten/copy.h"\n')
    assert list(layers.faults([source])) == [f"{source}:2: runtime must not look up or sideways at aten/copy.h"]


def test_source_and_header_that_rely_on_their_neighbours_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("csrc", "runtime")
    folder.mkdir(parents=True)
    (folder / "whole.cpp").write_text("#include <vector>\nstd::vector<int> whole;\n")
    (folder / "leans.cpp").write_text("std::vector<int> leans;\n")
    (folder / "leans.h").write_text("#pragma once\nstd::vector<int> f();\n")
    (folder / "whole.h").write_text("#pragma once\nint g();\n")
    compiler = shutil.which("c++") or "c++"
    command = f"{compiler} -std=c++20 -Werror -o csrc/CMakeFiles/torch_openreg.dir/unity.o -c unity.cxx"
    Path("compile_commands.json").write_text(json.dumps([{"command": command}]))
    paths = sorted(folder.iterdir())
    found = list(compile_alone.faults(Path("compile_commands.json"), paths))
    assert [line.split()[0] for line in found] == ["csrc/runtime/leans.cpp", "csrc/runtime/leans.h"]
    again = list(compile_alone.faults(Path("compile_commands.json"), paths))
    assert [line.split()[0] for line in again] == ["csrc/runtime/leans.cpp", "csrc/runtime/leans.h"]
