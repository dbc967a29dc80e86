"""Which sources CMake compiles: one in a folder that no list names stops the build, instead of being left out."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build.venvs import ROOT

NAMED = ("native/loops", "kernels/nn", "runtime", "python")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What CMake reads of the repository."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copy(ROOT / "CMakeLists.txt", folder)
    for name in ("cmake", "csrc", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def fault(clone: Path, host_kernels: str) -> str:
    """Configures. Returns the message, as one line."""
    build = clone / f"build-{host_kernels}"
    defined = (f"-DPython_EXECUTABLE={sys.executable}", f"-DHOST_KERNELS={host_kernels}")
    command = ["cmake", "-S", str(clone), "-B", str(build), "-G", "Ninja", *defined]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode == 0) == (ran.stderr == ""), ran.stdout + ran.stderr
    return " ".join(ran.stderr.split())


@pytest.mark.parametrize("host_kernels", ["ON", "OFF"])
def test_every_source_is_compiled(clone: Path, host_kernels: str) -> None:
    assert fault(clone, host_kernels) == ""


@pytest.mark.parametrize("folder", ["native/nn", "kernels/pool", "mine", "python/mine"])
def test_a_folder_that_no_list_names(clone: Path, folder: str) -> None:
    source = clone / "csrc" / folder / "probe.cpp"
    source.parent.mkdir()
    source.touch()
    try:
        assert f"csrc/{folder}/probe.cpp belongs to no library: in csrc/CMakeLists.txt, add its" in fault(clone, "ON")
    finally:
        shutil.rmtree(source.parent)


def test_a_new_source_needs_no_line(clone: Path) -> None:
    for folder in NAMED:
        (clone / "csrc" / folder / "probe.cpp").touch()
    assert fault(clone, "ON") == ""
    batches = "".join(path.read_text(encoding="utf-8") for path in (clone / "build-ON").rglob("Unity/*"))
    assert [folder for folder in NAMED if f"csrc/{folder}/probe.cpp" not in batches] == []
