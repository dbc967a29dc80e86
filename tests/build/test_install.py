"""The package in a foreign environment, installed as the build page describes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from prerequisites import torch_series

from tests.build.conftest import install
from tests.build.minimal_driver import NOT_USABLE, TRAINING, failed_checks, failed_tests
from tests.build.venvs import ROOT, ForeignVenv, foreign_venv

ONES = "print(torch.ones(2, device='openreg').tolist())"


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """A folder whose modules shadow installed ones."""
    return tmp_path


def write_package(folder: Path, name: str, source: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(source)


@pytest.mark.parametrize(
    "imports",
    ["import torch", "import torch_openreg, torch", "import torch, torch_openreg"],
)
@pytest.mark.long
def test_either_import_comes_first(installed: ForeignVenv, imports: str) -> None:
    ran = installed.python(f"{imports}; {ONES}", "-W", "error")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "[1.0, 1.0]\n", "")


@pytest.mark.parametrize("imports", ["import torch_openreg, torch", "import torch, torch_openreg"])
@pytest.mark.long
def test_package_loads_by_import_when_autoload_is_off(installed: ForeignVenv, imports: str) -> None:
    ran = installed.python(f"{imports}; {ONES}", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (ran.returncode, ran.stdout) == (0, "[1.0, 1.0]\n"), ran.stderr


@pytest.mark.long
def test_autoload_off_leaves_torch_alone(installed: ForeignVenv) -> None:
    code = "import sys, torch; print('torch_openreg' in sys.modules, hasattr(torch, 'openreg'))"
    assert installed.python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout == "False False\n"


@pytest.mark.long
def test_broken_package_warns_and_leaves_torch_usable(installed: ForeignVenv, overlay: Path) -> None:
    write_package(overlay, "torch_openreg", "raise OSError('libopenreg.so: cannot open')\n")
    ran = installed.python("import torch; print(torch.ones(2).tolist())", PYTHONPATH=str(overlay))
    assert (ran.returncode, ran.stdout) == (0, "[1.0, 1.0]\n")
    assert "RuntimeWarning: The openreg backend was not loaded: OSError: libopenreg.so: cannot open" in ran.stderr
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in ran.stderr


@pytest.mark.long
def test_broken_package_does_not_break_torch_when_warnings_are_errors(installed: ForeignVenv, overlay: Path) -> None:
    write_package(overlay, "torch_openreg", "raise OSError('libopenreg.so: cannot open')\n")
    code = "import warnings; warnings.simplefilter('error', RuntimeWarning); import torch; print(torch.ones(2).sum())"
    ran = installed.python(code, PYTHONPATH=str(overlay))
    assert (ran.returncode, ran.stdout) == (0, "tensor(2.)\n")
    assert ran.stderr.startswith("The openreg backend was not loaded: OSError")


def test_broken_package_raises_when_it_is_imported(installed: ForeignVenv, overlay: Path) -> None:
    write_package(overlay, "torch_openreg", "raise ImportError('broken')\n")
    ran = installed.python("import torch_openreg", PYTHONPATH=str(overlay))
    assert ran.returncode == 1
    assert ran.stderr.endswith("ImportError: broken\n")


def test_other_minor_version_of_torch_is_refused_by_name(installed: ForeignVenv, overlay: Path) -> None:
    series = torch_series(torch.__version__)
    write_package(overlay, "torch", "__version__ = '2.12.1'\n")
    ran = installed.python("import torch_openreg", PYTHONPATH=str(overlay))
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1] == (
        f"ImportError: torch_openreg was built for PyTorch {torch.__version__} and works with {series} only, "
        f"found PyTorch 2.12.1: install torch=={series}.*, or a torch_openreg built for this one"
    )


@pytest.mark.long
def test_source_tree_without_a_build_says_so(tmp_path: Path) -> None:
    ran = foreign_venv(tmp_path / "venv").python("import torch_openreg", PYTHONPATH=str(ROOT))
    assert ran.returncode == 1
    assert (ROOT / "Makefile").is_file()
    assert ran.stderr.splitlines()[-1] == (
        f"ImportError: torch_openreg is not built in {ROOT}: run `make build` there, "
        "or leave that folder to import an installed one"
    )


def test_installed_files_name_no_path_of_the_build(installed: ForeignVenv) -> None:
    private = {str(path).encode() for path in (ROOT, Path(torch.__file__).parent, installed.prefix)}
    private.add(sys.prefix.encode())
    files = [file for file in (installed.site_packages / "torch_openreg").rglob("*") if file.suffix != ".pyc"]
    libraries = [file.name for file in files if file.suffix == ".so"]
    assert sorted(name.split(".")[0] for name in libraries) == [
        "_C",
        "libopenreg",
        "libopenreg_native",
        "libopenreg_stable",
        "libtorch_openreg",
    ]
    for file in filter(Path.is_file, files):
        content = file.read_bytes()
        assert [path for path in private if path in content] == [], file


@pytest.mark.long
def test_without_host_kernels_everything_takes_the_fallback(tmp_path: Path, build_folder: Path) -> None:
    made = foreign_venv(tmp_path / "venv")
    ran = install(made, "install_without_host_kernels.sh", build_folder)
    assert "tensor([1., 1.], device='openreg:0')" in ran.stdout
    code = (
        "import torch; x = torch.arange(6., device='openreg').reshape(2, 3); "
        "print((x.T @ x).cpu().sum().item(), x.T.contiguous().tolist(), (-x).abs().max().item())"
    )
    ran = made.python(code)
    assert ran.stdout == "153.0 [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]] 5.0\n", ran.stderr


@pytest.mark.long
def test_backend_runs_on_the_minimal_driver(tmp_path: Path, build_folder: Path) -> None:
    made = foreign_venv(tmp_path / "venv")
    ran = install(made, "install_with_minimal_driver.sh", build_folder)
    assert "openreg minimal accelerator" in ran.stdout
    ran = made.python(TRAINING)
    assert ran.stdout == "as on the CPU: True\nlearned: True\n", ran.stderr
    ran = made.python("import torch; torch.ones(2, device='openreg')", OPENREG_LAUNCH="async")
    assert "OPENREG_LAUNCH is 'async', but this driver queues nothing; valid are auto and inline" in ran.stderr
    assert failed_checks(made, tmp_path) == NOT_USABLE
    assert failed_tests(made, tmp_path) == set()


def test_minimal_driver_refuses_host_kernels(tmp_path: Path) -> None:
    configure = ["cmake", "-S", str(ROOT / "csrc" / "driver" / "minimal"), "-B", str(tmp_path), "-DHOST_KERNELS=ON"]
    ran = subprocess.run(configure, capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "csrc/driver/minimal runs no host code as kernels: build it with" in " ".join(ran.stderr.split())
