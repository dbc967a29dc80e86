"""The package examples/python_backend: its own tests on both of its bases, and, installed, its README's commands."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "examples" / "python_backend"
TESTS = {
    "compiled": ["tests"],
    # Tests that do not concern the base are not run again.
    "uncompiled": [f"tests/test_{what}.py" for what in ("uncompiled", "register", "tensors", "random")],
}


@pytest.mark.parametrize("base", TESTS)
def test_its_own_tests_pass(base: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", *TESTS[base]]
    environment = {**os.environ, "TORCH_REMOTE_BASE": base, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    environment.pop("PYTEST_ADDOPTS", None)
    ran = subprocess.run(command, cwd=PACKAGE, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def run_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in the folder of the package, on the base that needs no compiler, with the kit on its path."""
    environment = {**os.environ, "TORCH_REMOTE_BASE": "uncompiled", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    environment["PYTHONPATH"] = str(PACKAGE.parents[1] / "conformance")
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=PACKAGE, env=environment, capture_output=True, text=True, check=False, timeout=280
    )


@pytest.mark.parametrize("samples", ["0", "-1", "many"])
def test_opinfo_refuses_to_compare_nothing(samples: str) -> None:
    ran = run_here("opinfo.py", samples)
    assert ran.returncode == 2, ran.stdout
    assert f"SAMPLES: how many samples of an entry to compare is a number from 1, got '{samples}'" in ran.stderr


def test_opinfo_names_the_kit_that_is_missing() -> None:
    environment = {**os.environ, "TORCH_REMOTE_BASE": "uncompiled", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    environment.pop("PYTHONPATH", None)
    hidden = "import runpy, sys; sys.modules['accelerator_conformance'] = None; sys.argv = ['opinfo.py', '20']; "
    command = [sys.executable, "-c", hidden + "runpy.run_path('opinfo.py', run_name='__main__')"]
    ran = subprocess.run(command, cwd=PACKAGE, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr == "opinfo.py needs the conformance kit, in a clone of the guide: pip install ../../conformance\n"
    assert "`pip install ../../conformance`" in README


def test_opinfo_does_not_count_what_was_not_compared() -> None:
    """The CPU supports no sample of `jiterator_unary`, which is for CUDA."""
    ran = run_here(
        "-c",
        "import opinfo\n"
        "from torch.testing._internal import common_methods_invocations as database\n"
        "every = list(database.op_db)\n"
        "for names in ('abs', 'jiterator_unary'), ('jiterator_unary',):\n"
        "    database.op_db[:] = [entry for entry in every if entry.name in names]\n"
        "    print('status', opinfo.main(1))\n",
    )
    lines = [line for line in ran.stdout.splitlines() if line.startswith("status") or " units " in line]
    none = "1 more units have nothing to compare: the CPU supports none of their samples."
    assert lines == [
        *("2 of 2 units pass: 100.00%", none, "status 0"),
        *("0 of 0 units pass: 0.00%", none, "status 1"),
    ], ran.stderr


README = (PACKAGE / "README.md").read_text(encoding="utf-8")
INSTALL = "pip install --no-build-isolation ."
# A command of the README, arguments that keep it short, and what it prints.
COMMANDS = {
    "use": ("python -c 'import torch; print(torch.ones(2, device=\"remote\") + 1)'", "", "tensor([2., 2.], device="),
    "opinfo": ("python opinfo.py", "1", " units pass: 99.50%"),
    "benchmark": ("python benchmark.py", "", "| foreseen, without C++ |"),
    "kit": (
        "python -m accelerator_conformance --device remote --setup torch_remote.registered",
        "--area module --level minimal",
        "module            100 %",
    ),
}


def run(python: Path, command: str, folder: Path) -> str:
    """Runs a command in the environment of an interpreter. Returns its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TORCH_"))}
    environment["PATH"] = f"{python.parent}{os.pathsep}{environment['PATH']}"
    ran = subprocess.run(
        shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the packages of this one except its backend: a process has only one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "torch_openreg" not in entry.name:
            (site / entry.name).symlink_to(entry)
    (site / "accelerator_conformance").symlink_to(PACKAGE.parents[1] / "conformance/accelerator_conformance")
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def clone(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, from which it was installed."""
    folder = tmp_path_factory.mktemp("clone") / "python_backend"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("build", "__pycache__", "*.egg-info"))
    assert f"    {INSTALL}\n" in README
    run(python, f"python -m {INSTALL} --no-deps --no-index --quiet", folder)
    return folder


@pytest.mark.parametrize("what", COMMANDS)
def test_commands_of_the_readme(what: str, python: Path, clone: Path) -> None:
    command, added, said = COMMANDS[what]
    assert command in README
    assert said in run(python, f"{command} {added}", clone)
