"""The distribution: what is in the wheel, and that pytest finds the kit once it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conformance.kit import KIT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(KIT, folder / "kit")  # the build writes next to its sources
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", str(folder)]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(folder / "kit")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_is_pure_and_whole(wheel: Path) -> None:
    assert wheel.name == "accelerator_conformance-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if not name.startswith("accelerator_conformance-")}
        entry_points = archive.read("accelerator_conformance-0.1.0.dist-info/entry_points.txt").decode()
        metadata = archive.read("accelerator_conformance-0.1.0.dist-info/METADATA").decode()
    sources = (path for path in KIT.rglob("*") if path.suffix in (".py", ".typed"))
    assert files == {path.relative_to(KIT).as_posix() for path in sources}
    assert entry_points.split() == ["[pytest11]", "accelerator_conformance", "=", "accelerator_conformance.plugin"]
    # No installer may replace the torch that is tested.
    assert "Requires-Dist: torch" not in metadata


@pytest.fixture(scope="module")
def site(wheel: Path) -> Path:
    """A folder in which the kit is installed."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(wheel.parent / "site")
    return wheel.parent / "site"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose settings are not those of the kit."""
    (tmp_path / "test_it.py").write_text("def test_it(request): assert request.config.getoption('--device') == 3\n")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\naddopts = ['-p', 'no:cacheprovider']\nfilterwarnings = ['error']\n"
    )
    conftest = tmp_path / "tests" / "conftest.py"
    conftest.parent.mkdir()
    conftest.write_text("import os\nos.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n")
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--device', default=3)\n")
    return tmp_path


def run(module: str, *arguments: str, folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


KIT_BY = {
    "pytest": ["pytest", "--pyargs", "accelerator_conformance"],
    "its name": ["accelerator_conformance"],
}


@pytest.mark.parametrize("by", KIT_BY)
def test_it_runs_in_the_folder_of_a_project(by: str, project: Path, site: Path) -> None:
    kit = run(*KIT_BY[by], "--device", "openreg", "--area", "module", folder=project, site=site)
    assert kit.returncode == 0, kit.stdout + kit.stderr
    assert "warning" not in kit.stdout
    assert (project / "conformance-openreg" / "report.html").is_file()


@pytest.mark.parametrize("by", KIT_BY)
def test_it_says_what_it_cannot_import(
    by: str, project: Path, site: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    broken = tmp_path_factory.mktemp("broken")
    (broken / "expecttest.py").write_text("raise ModuleNotFoundError('there is no expecttest')\n")
    paths = Path(f"{broken}{os.pathsep}{site}")
    kit = run(*KIT_BY[by], "--device", "openreg", "--area", "operators", folder=project, site=paths)
    assert kit.returncode == pytest.ExitCode.INTERRUPTED
    assert "ModuleNotFoundError: there is no expecttest" in kit.stdout, kit.stdout


def test_a_project_beside_it_keeps_its_options(project: Path, site: Path) -> None:
    neighbour = run("pytest", folder=project, site=site)
    assert "1 passed" in neighbour.stdout, neighbour.stdout + neighbour.stderr
