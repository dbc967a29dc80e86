"""Modules are compiled once, cached on disk, and compiled again if the cached binary is unusable."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from environment import ROOT
from prerequisites import compiler_command

import torch_openreg
from tests.native.conftest import NativeProcess

SOURCES = Path(torch_openreg._C.__file__).parent / "native"
ABS = 'import torch; print(torch.tensor([-1.5, 2]).to("openreg").abs().cpu().tolist())'
FAILS = """
import torch
try:
    torch.ones(2, device="openreg").abs()
except RuntimeError as error:
    print(error)
"""


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").iterdir())


@pytest.fixture
def own_sources(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SOURCES, tmp_path / "sources"))


def test_a_second_process_finds_the_binary(run_native: NativeProcess, tmp_path: Path) -> None:
    assert run_native(ABS) == "[1.5, 2.0]\n"
    (binary,) = files(tmp_path)
    assert binary.name.startswith("abs-")
    written = binary.stat().st_mtime_ns
    assert run_native(ABS) == "[1.5, 2.0]\n"
    assert binary.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    "damaged",
    [
        lambda good: b"",
        lambda good: b"nothing",
        lambda good: b"openreg-module 1 x y\nbinary",
        lambda good: good[:-1],
        lambda good: good[:-9] + bytes([good[-9] ^ 1]) + good[-8:],
    ],
    ids=["empty", "something else", "another header", "cut", "a changed bit"],
)
def test_a_damaged_binary_is_compiled_again(
    run_native: NativeProcess, tmp_path: Path, damaged: Callable[[bytes], bytes]
) -> None:
    run_native(ABS)
    (binary,) = files(tmp_path)
    good = binary.read_bytes()
    binary.write_bytes(damaged(good))
    assert run_native(ABS) == "[1.5, 2.0]\n"
    header, _, module = binary.read_bytes().partition(b"\n")
    assert header.split()[:3] == good.splitlines()[0].split()[:3]
    assert header.split()[3].decode() == hashlib.sha1(module).hexdigest()
    assert files(tmp_path) == [binary]


PRODUCT = """
import torch
a, b = torch.arange(35.0).view(5, 7), torch.arange(63.0).view(7, 9)
print(torch.equal((a.to("openreg") @ b.to("openreg")).cpu(), a @ b))
"""


def test_a_driver_without_binaries_and_with_small_groups(run_native: NativeProcess, tmp_path: Path) -> None:
    library = tmp_path / "poor_modules.so"
    compiler = [*compiler_command(), "-std=c++20", "-fPIC", "-shared"]
    source = ROOT / "tests" / "native" / "_poor_modules.cpp"
    subprocess.run([*compiler, f"-I{ROOT / 'csrc' / 'driver'}", str(source), "-o", str(library)], check=True)
    assert run_native(ABS, LD_PRELOAD=str(library)) == "[1.5, 2.0]\n"
    assert run_native(PRODUCT, LD_PRELOAD=str(library)) == "True\n"
    assert not (tmp_path / "cache").exists()


def test_a_folder_that_cannot_be_written(run_native: NativeProcess, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run_native(ABS, OPENREG_CACHE_DIR=str(tmp_path / "file" / "cache")) == "[1.5, 2.0]\n"
    assert run_native(ABS, OPENREG_CACHE_DIR="") == "[1.5, 2.0]\n"
    assert not (tmp_path / "cache").exists()


def test_an_edited_kernel_runs_next_time(run_native: NativeProcess, own_sources: Path, tmp_path: Path) -> None:
    assert run_native(ABS, OPENREG_NATIVE_SOURCES=str(own_sources)) == "[1.5, 2.0]\n"
    edited = own_sources / "loops" / "abs.cl"
    edited.write_text(edited.read_text().replace("return fabs(x);", "return fabs(x) + 100;"))
    assert run_native(ABS, OPENREG_NATIVE_SOURCES=str(own_sources)) == "[101.5, 102.0]\n"
    assert len(files(tmp_path)) == 2


def test_a_compile_error_brings_the_log(run_native: NativeProcess, own_sources: Path, tmp_path: Path) -> None:
    edited = own_sources / "loops" / "abs.cl"
    edited.write_text(edited.read_text().replace("return fabs(x);", "return no_such_function(x);"))
    message = run_native(FAILS, OPENREG_NATIVE_SOURCES=str(own_sources))
    assert message.startswith("orErrorCompilation: ")
    assert "no_such_function" in message
    assert "abs.cl" in message
    assert not (tmp_path / "cache").exists()


def test_a_missing_function_and_a_missing_source(run_native: NativeProcess, own_sources: Path) -> None:
    edited = own_sources / "loops" / "abs.cl"
    edited.write_text(edited.read_text().replace("abs_contiguous", "abs_dense"))
    message = run_native(FAILS, OPENREG_NATIVE_SOURCES=str(own_sources))
    assert message.startswith("orErrorInvalidValue: ")
    assert "abs_dense" in message
    edited.unlink()
    assert "cannot read the kernel source" in run_native(FAILS, OPENREG_NATIVE_SOURCES=str(own_sources))
