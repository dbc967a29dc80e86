"""A program is recompiled when any file that the compiler read has changed, and copied otherwise."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from weaver.run import cached_compiler


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    return cached_compiler.wrapper(tmp_path / "kept", ["sh", str(counting(tmp_path)), "c++"])


def counting(folder: Path) -> Path:
    """A program that runs its arguments and counts how often."""
    script = folder / "counting"
    script.write_text(f'echo ran >> {folder}/runs\nexec "$@"\n', encoding="utf-8")
    return script


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text(encoding="utf-8").splitlines())


def output(compiler: Path, folder: Path, *options: str) -> str:
    program = folder / "program"
    program.unlink(missing_ok=True)
    subprocess.run([compiler, *options, "program.cpp", "-o", program], cwd=folder, check=True)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def test_what_was_compiled_is_copied_until_something_is_another(compiler: Path, tmp_path: Path) -> None:
    header, source = tmp_path / "a header.h", tmp_path / "program.cpp"
    header.write_text("#define VALUE 1\n", encoding="utf-8")
    source.write_text(
        '#include <cstdio>\n#include "a header.h"\nint main() { std::printf("%d", VALUE); }\n', encoding="utf-8"
    )
    assert [output(compiler, tmp_path), output(compiler, tmp_path), runs(tmp_path)] == ["1", "1", 1]
    header.write_text("#define VALUE 23\n", encoding="utf-8")
    assert [output(compiler, tmp_path), output(compiler, tmp_path), runs(tmp_path)] == ["23", "23", 2]
    assert [output(compiler, tmp_path, "-O2"), runs(tmp_path)] == ["23", 3]
    header.rename(tmp_path / "elsewhere.h")
    with pytest.raises(subprocess.CalledProcessError):
        output(compiler, tmp_path)
    (tmp_path / "elsewhere.h").rename(header)
    assert [output(compiler, tmp_path), runs(tmp_path)] == ["23", 4]


def test_another_compiler_of_the_same_name_compiles_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "program.cpp").write_text('extern "C" int puts(const char*);\nint main() { puts(TEXT); }\n')
    compiler, called = cached_compiler.wrapper(tmp_path / "kept", ["called"]), tmp_path / "called"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for text in ("one", "one", "other"):
        called.write_text(f'#!/bin/sh\necho >> {tmp_path}/runs\nexec c++ -DTEXT=\'"{text}"\' "$@"\n')
        os.utime(called, ns=(0, 0))
        called.chmod(0o755)
        assert output(compiler, tmp_path) == f"{text}\n"
    assert runs(tmp_path) == 2
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    (tmp_path / "bin").mkdir()
    called.rename(tmp_path / "bin/called")
    assert output(compiler, tmp_path) == "other\n"
    assert runs(tmp_path) == 3


def test_a_program_that_does_not_compile_is_compiled_each_time(compiler: Path, tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text("int main() { return missing; }\n", encoding="utf-8")
    for count in (1, 2):
        command = [str(compiler), "program.cpp", "-o", "program"]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 1
        assert "missing" in ran.stderr
        assert runs(tmp_path) == count


def test_what_the_compiler_only_says_is_passed_on(compiler: Path, tmp_path: Path) -> None:
    text = "int f() { int unused; return 0; }\n"
    command = [str(compiler), "-w", "-Wall", "-fsyntax-only", "-xc++", "-"]
    ran = subprocess.run(command, input=text, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stderr == ""  # the example itself passes -w
    quiet = cached_compiler.wrapper(tmp_path / "quiet", ["c++", "-w"])
    ran = subprocess.run(
        [str(quiet), *command[2:]], input=text, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "unused" in ran.stderr
