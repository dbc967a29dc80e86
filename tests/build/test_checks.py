"""The project's own static checks find what they are for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import build_table
import compile_alone
import layers
import model_table
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


def test_a_source_is_compiled_alone_without_the_precompiled_headers(tmp_path: Path) -> None:
    precompiled = "csrc/CMakeFiles/torch_openreg.dir/cmake_pch.hxx"
    commands = [
        f"c++ -DA -Winvalid-pch -x c++-header -include {precompiled} -o {precompiled}.gch -c {precompiled}.cxx",
        f"c++ -DA -Winvalid-pch -include {precompiled} -o csrc/CMakeFiles/torch_openreg.dir/one.o -c one.cpp",
        "c++ -DB -include mutant.h -o csrc/CMakeFiles/_C.dir/module.o -c module.cpp",
    ]
    database = tmp_path / "compile_commands.json"
    for order in (commands, commands[::-1]):
        database.write_text(json.dumps([{"command": command} for command in order]))
        flags = compile_alone.target_flags(database)
        assert flags == {"torch_openreg": ["c++", "-DA"], "_C": ["c++", "-DB", "-include", "mutant.h"]}


def test_a_table_of_build_times_for_other_batches_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def changed(path: str, text: str) -> bool:
        before = build_table.digest()
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
        return build_table.digest() != before

    assert changed("csrc/CMakeLists.txt", "add_library(backend abs.cpp)")
    assert changed("cmake/Torch.cmake", "add_library(torch::c10 SHARED IMPORTED)")
    assert changed("csrc/aten/rows.h", "int x;")
    assert not changed("csrc/aten/rows.h", "int  x;  // why")
    assert changed("csrc/aten/structured.toml", "[[stubs]]")
    assert not changed("csrc/aten/abs.cpp", "int y;")
    assert list(build_table.stale()) == [
        "benchmarks/results/build_time.md is missing: run `python benchmarks/build_time.py`"
    ]
    build_table.RESULT.parent.mkdir(parents=True)
    build_table.RESULT.write_text(f"% {build_table.digest()}\n", encoding="utf-8")
    assert list(build_table.stale()) == []
    assert changed("csrc/aten/rows.h", "int z;")
    assert "have changed since it was made: run `python benchmarks/build_time.py`" in "".join(build_table.stale())


def test_a_table_of_models_for_another_backend_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def changed(path: str, text: str) -> bool:
        before = model_table.digest()
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
        return model_table.digest() != before

    assert changed("csrc/aten/kernels/abs.h", "int x;")
    assert not changed("csrc/aten/kernels/abs.h", "int  x;  // why")
    assert changed("csrc/CMakeLists.txt", "add_library(backend abs.cpp)")
    assert changed("torch_openreg/memory.py", "SIZE = 1")
    assert changed("tests/models/networks.py", "WIDTH = 1")
    assert changed("benchmarks/models.py", "STEPS = 1")
    assert not changed("tests/models/test_training.py", "def test_it(): pass")
    assert not changed("docs/source/index.md", "A page")
    assert list(model_table.stale()) == ["benchmarks/results/models.md is missing: run `make models`"]
    model_table.RESULT.parent.mkdir()
    model_table.RESULT.write_text(f"% {model_table.digest()}\n", encoding="utf-8")
    assert list(model_table.stale()) == []
    assert changed("torch_openreg/memory.py", "SIZE = 2")
    assert "have changed since it was made: run `make models`" in "".join(model_table.stale())


def test_what_the_tables_are_made_from_is_there() -> None:
    root = Path(__file__).parents[2]
    patterns = (*model_table.MEASURED, *build_table.MEASURED)
    assert [pattern for pattern in patterns if not any(root.glob(pattern))] == []
