"""The project's own static checks find the faults that they look for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import check
import compile_alone
import defined_once
import layers
import maps
import pytest
import results
from environment import Fault
from share import ALL, Share


@pytest.mark.parametrize(
    ("layer", "included", "fault"),
    [
        ("driver", "c10/core/Device.h", "the driver knows nothing of PyTorch, not c10/core/Device.h"),
        ("runtime", "aten/copy.h", "runtime must not look up or sideways at aten/copy.h"),
        ("stable", "runtime/stream.h", "stable must not look up or sideways at runtime/stream.h"),
        ("stable", "driver/openreg.h", None),
        ("kernels", "profiler/events.h", "kernels must not look up or sideways at profiler/events.h"),
        ("aten", "kernels/launch.h", "aten must not look up or sideways at kernels/launch.h"),
        ("kernels", "aten/dropout.h", None),
        (
            "aten",
            "driver/openreg_host_kernels.h",
            "host code stands for kernels in csrc/kernels alone: driver/openreg_host_kernels.h does not belong here",
        ),
        ("kernels", "driver/openreg_host_kernels.h", None),
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


def test_a_function_of_a_source_and_another_of_a_header(tmp_path: Path) -> None:
    sources = {
        "source": "int dense(int x) { return x + 1; } namespace { int own() { return 1; } } int f() { return own(); }",
        "user": "inline int dense(int x) { return x; } int (*address)(int) = dense;",
        "other": "int dense(double x) { return x > 1; } namespace { int own() { return 2; } } int (*h)() = own;",
    }
    objects = [tmp_path / f"{name}.o" for name in sources]
    for compiled, text in zip(objects, sources.values(), strict=True):
        code = f"namespace openreg {{ {text} }}"
        subprocess.run(["g++", "-x", "c++", "-c", "-o", compiled, "-"], input=code, text=True, check=True)
    assert list(defined_once.faults(objects)) == [
        "openreg::dense(int) is defined in source.o, and inline in a header that user.o include: rename one, or put it "
        "into an unnamed namespace"
    ]
    assert list(defined_once.faults(objects[1:])) == []
    with pytest.raises(Fault, match=re.escape("there are no object files to look at: build the extension first")):
        list(defined_once.faults([]))


def test_files_that_no_map_names_and_names_that_are_no_file() -> None:
    rows = ("file | what", "--- | ---", "`a.cpp`, `a.h` | 1", "`deep/` | 2", "`deep/b.cpp` | 3", "`all/` | 4")
    table = "".join(f"| {row} |\n" for row in rows)
    there = dict.fromkeys(("csrc/x/a.cpp", "csrc/x/a.h", "csrc/x/deep/b.cpp", "csrc/x/all/c.cpp"), "")
    assert list(maps.faults(there | {"csrc/x/README.md": table})) == []
    del there["csrc/x/a.h"]
    more = dict.fromkeys(("csrc/x/new.cpp", "csrc/x/deep/new.h", "csrc/y/z.cpp"), "")
    assert list(maps.faults(there | more | {"csrc/x/README.md": table})) == [
        "csrc/x/README.md: does not say what deep/new.h is",
        "csrc/x/README.md: does not say what new.cpp is",
        "csrc/y/z.cpp: neither its folder nor one above has a README.md that names its files",
        "csrc/x/README.md: there is no a.h",
    ]
    gone = ["csrc/x/deep/b.cpp", "csrc/x/a.h"]
    fewer = table.replace("| `deep/b.cpp` | 3 |\n", "").replace("`a.cpp`, `a.h`", "`a.cpp`")
    assert maps.without(table, "csrc/x", lambda path: path not in gone) == fewer


def test_walks_through_files_that_are_not_there() -> None:
    walks = "Walks:\n\n- `f(2)`: `x/a.cpp`,\n  `y/b.cpp`.\n- `g()`: `x/a.cpp`.\n\nThe end: `y/b.cpp`.\n"
    files = {"csrc/README.md": "| `x/` | 1 |\n\n" + walks, "csrc/x/a.cpp": ""}
    assert list(maps.faults(files)) == ["csrc/README.md: there is no y/b.cpp"]
    assert maps.without(walks, "csrc", lambda path: path in files) == (
        "Walks:\n\n- `g()`: `x/a.cpp`.\n\nThe end: `y/b.cpp`.\n"
    )


def test_a_note_that_is_named_and_not_written() -> None:
    written = "// Locks.\n//\n// Note [Two locks]\n// ~~~~\n// The first is taken first.\n"
    named = "// See Note [Two\n  // locks], and Note [Streams] in ATen/x.h.\nint x;  // Note [Two clocks]\n"
    assert list(maps.unwritten_notes({"csrc/a.h": written, "csrc/b.cpp": named})) == [
        "csrc/b.cpp: there is no Note [Two clocks]"
    ]


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


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A repository of one folder, csrc/runtime, in the working directory; returns the log of compiled files."""
    monkeypatch.chdir(tmp_path)
    compiled = tmp_path / "compiled"
    script = tmp_path / "c++"
    script.write_text(
        f"#!/bin/sh\ncase $* in *--version) ;; *) for last; do :; done; echo $last >>{compiled} ;; esac\n"
        f'exec {shutil.which("c++")} "$@"\n'
    )
    script.chmod(0o755)
    Path("csrc", "runtime").mkdir(parents=True)
    command = f"{script} -std=c++20 -Icsrc -o csrc/CMakeFiles/torch_openreg.dir/unity.o -c unity.cxx"
    Path("compile_commands.json").write_text(json.dumps([{"command": command}]))
    return compiled


def compiled_now(compiled: Path, part: Share = ALL) -> list[str]:
    """The files that a check without faults compiles."""
    compiled.write_text("")
    paths = sorted(Path("csrc").rglob("*.*"))
    assert list(compile_alone.faults(Path("compile_commands.json"), paths, part)) == []
    return sorted(Path(line).name for line in compiled.read_text().split())


def test_only_what_reads_a_changed_file_is_compiled_again(compiler: Path) -> None:
    folder = Path("csrc", "runtime")
    (folder / "a.h").write_text("#pragma once\nint a();\n")
    (folder / "a.cpp").write_text('// The first.\n#include "runtime/a.h"\nint a() { return 1; }\n')
    (folder / "b.cpp").write_text("int b() { return 2; }\n")
    # The header is not compiled by itself, because a.cpp includes it first.
    assert compiled_now(compiler) == ["a.cpp", "b.cpp"]
    assert compiled_now(compiler) == []
    (folder / "a.h").write_text("#pragma once\nint a();  // better\n")
    assert compiled_now(compiler) == ["a.cpp"]
    (folder / "b.cpp").write_text("int b() { return 3; }\n")
    assert compiled_now(compiler) == ["b.cpp"]
    database = Path("compile_commands.json")
    database.write_text(database.read_text().replace("-std=c++20", "-std=c++20 -O1"))
    assert compiled_now(compiler) == ["a.cpp", "b.cpp"]


def test_a_folder_with_a_blank_hides_no_changed_header(
    compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the rule that a compiler writes, a backslash stands before a blank or #, and $ is doubled."""
    root = tmp_path / "my $2 repo #1"
    folder = root / "csrc" / "runtime"
    folder.mkdir(parents=True)
    database = Path("compile_commands.json").read_text().replace("-Icsrc", f"-I'{root / 'csrc'}'")
    (root / "compile_commands.json").write_text(database)
    monkeypatch.chdir(root)
    (folder / "a.h").write_text("#pragma once\nint a();\n")
    (folder / "a.cpp").write_text('#include "runtime/a.h"\nint a() { return 1; }\n')
    assert compiled_now(compiler) == ["a.cpp"]
    assert compiled_now(compiler) == []
    (folder / "a.h").write_text("#pragma once\nint a();  // better\n")
    assert compiled_now(compiler) == ["a.cpp"]


def test_a_mark_that_a_full_disk_left_empty_counts_for_nothing(compiler: Path) -> None:
    Path("csrc", "runtime", "b.cpp").write_text("int b() { return 2; }\n")
    assert compiled_now(compiler) == ["b.cpp"]
    (mark,) = Path("compiled_alone").iterdir()
    mark.write_text("")
    assert compiled_now(compiler) == ["b.cpp"]
    assert compiled_now(compiler) == []


def test_each_source_is_in_one_share(compiler: Path) -> None:
    folder = Path("csrc", "runtime")
    for name in "abcde":
        (folder / f"{name}.cpp").write_text(f"int {name}();\n")
    shares = [compiled_now(compiler, Share(number, 3)) for number in range(3)]
    assert shares == [["a.cpp", "d.cpp"], ["b.cpp", "e.cpp"], ["c.cpp"]]


def test_a_header_is_found_that_its_own_source_does_not_begin_with(compiler: Path) -> None:
    folder = Path("csrc", "runtime")
    (folder / "a.h").write_text("#pragma once\nstd::vector<int> a();\n")
    source = folder / "a.cpp"
    source.write_text('#include <vector>\n#include "runtime/a.h"\nstd::vector<int> a() { return {}; }\n')
    paths = [source, folder / "a.h"]
    found = list(compile_alone.faults(Path("compile_commands.json"), paths))
    assert [line.split()[0] for line in found] == ["csrc/runtime/a.h"]
    source.write_text('#include "runtime/a.h"\n#include <vector>\nstd::vector<int> a() { return {}; }\n')
    found = list(compile_alone.faults(Path("compile_commands.json"), paths))
    assert [line.split()[0] for line in found] == ["csrc/runtime/a.cpp"]


def test_every_check_runs_though_others_fail(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def whole() -> Iterator[str]:
        yield from ()

    def broken() -> Iterator[str]:
        yield "a.py:1: is wrong"
        yield "a.py:2: is wrong too"

    def stopped() -> Iterator[str]:
        raise Fault("no git")
        yield

    seconds = tmp_path / "loop" / "checks.tsv"
    checks = {"stopped": stopped, "broken": broken, "whole": whole}
    assert sorted(check.run_all(checks, seconds)) == ["broken", "stopped"]
    told = capsys.readouterr()
    assert "a.py:1: is wrong\na.py:2: is wrong too\n" in told.err
    assert "no git\n" in told.err
    assert re.search(r"^-- check whole \(\d+\.\d s\)$", told.out, re.MULTILINE)
    assert sorted(re.findall(r"^\d+\.\d\t(\w+)$", seconds.read_text(), re.MULTILINE)) == ["broken", "stopped", "whole"]


def test_a_check_that_breaks_is_a_fault_and_hides_no_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def breaks() -> Iterator[str]:
        yield from json.loads("{")

    def broken() -> Iterator[str]:
        yield "a.py:1: is wrong"

    assert sorted(check.run_all({"breaks": breaks, "broken": broken}, tmp_path / "tsv")) == ["breaks", "broken"]
    told = capsys.readouterr().err
    assert "a.py:1: is wrong\n" in told
    line = breaks.__code__.co_firstlineno + 1
    message = r"^JSONDecodeError: Expecting property name .* \(tests/build/test_checks\.py:(\d+)\)$"
    assert re.findall(message, told, re.MULTILINE) == [str(line)]


def test_what_a_program_says_is_the_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import os\n")
    monkeypatch.chdir(tmp_path)
    assert "bad.py" in "".join(check.python_lint())
    (tmp_path / "bad.py").write_text('"""Nothing."""\n')
    assert list(check.python_lint()) == []


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


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("result", "counts", "does_not"),
    [
        (
            results.MODELS,
            ["tests/models/networks.py", "benchmarks/models.py"],
            ["tests/models/test_training.py", "csrc/aten/deep/abs.h", "docs/source/index.md"],
        ),
        (
            results.OPINFO,
            ["tests/opinfo/compare.py"],
            ["csrc/kernels/loops/abs.cpp", "csrc/driver/memory.cpp", "tests/opinfo/exceptions.toml"],
        ),
        (
            results.BUILD_TIME,
            [
                "csrc/CMakeLists.txt",
                "cmake/Torch.cmake",
                "csrc/kernels/library/structured.toml",
            ],
            ["csrc/kernels/loops/abs.cpp", "csrc/kernels/loops/rows.h"],
        ),
    ],
    ids=lambda value: value.path.stem if isinstance(value, results.Result) else "",
)
def test_a_result_of_other_sources_is_stale(
    tmp_path: Path, result: results.Result, counts: list[str], does_not: list[str]
) -> None:
    assert list(result.stale(tmp_path)) == [f"{result.path} is missing: run `{result.command}`"]
    write(tmp_path / result.path, "a table")
    unknown = f"{result.path}: {results.INPUTS} does not say what it was made from: run `{result.command}`"
    assert list(result.stale(tmp_path)) == [unknown]
    for path in counts:
        write(tmp_path / path, "x = 1")
        result.note(tmp_path)
        assert list(result.stale(tmp_path)) == []
        write(tmp_path / path, "x = 2")
        found = list(result.stale(tmp_path))
        assert found == [f"{result.path}: {path} changed since it was made: run `{result.command}`"]
    result.note(tmp_path)
    for path in does_not:
        write(tmp_path / path, "x = 1")
    assert list(result.stale(tmp_path)) == []
    (tmp_path / counts[0]).unlink()
    assert f"{result.path}: {counts[0]} changed" in "".join(result.stale(tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "csrc/kernels/loops/abs.cpp",
        "csrc/runtime/stream.cpp",
        "csrc/driver/minimal/memory.cpp",
        "csrc/native/library/loops.cl",
        "csrc/python/module.cpp",
        "torch_openreg/openreg/amp.py",
        "mine/kernels.inc",
    ],
)
def test_the_modes_of_opinfo_run_again_when_backend_or_driver_has_changed(tmp_path: Path, name: str) -> None:
    mine = tmp_path / "mine"  # a driver outside the repository
    digests = []
    for text in ("a = 1", "a = 2", "a = 1"):
        write(tmp_path / name, text)
        digests.append(results.OPINFO.digest(tmp_path, mine))
    assert digests[0] == digests[2] != digests[1]


def test_a_note_in_a_driver_of_the_repository_repeats_no_mode(tmp_path: Path) -> None:
    source = tmp_path / "csrc/driver/minimal/memory.cpp"
    write(source, "int a;")
    before = results.OPINFO.digest(tmp_path, Path("csrc/driver/minimal"))
    write(source, "int a;  // of two")
    assert results.OPINFO.digest(tmp_path, Path("csrc/driver/minimal")) == before


def test_another_pytorch_makes_a_result_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / results.MODELS.path, "a table")
    results.MODELS.note(tmp_path)
    monkeypatch.setattr(results, "installed_torch", lambda: "9.9.9+cpu")
    assert "PyTorch changed since it was made" in "".join(results.MODELS.stale(tmp_path))


def test_what_the_tables_are_made_from_is_there() -> None:
    root = Path(__file__).parents[2]
    patterns = [pattern for result in results.ALL for pattern in (*result.patterns, *result.tested)]
    assert [pattern for pattern in patterns if not any(root.glob(pattern))] == []
