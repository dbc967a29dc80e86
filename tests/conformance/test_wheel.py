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
    shutil.copytree(KIT, folder / "kit")  # the build writes beside its sources
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


def test_pytest_finds_it_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_it.py").write_text("def test_it(request): assert request.config.getoption('--device') == 3\n")
    (project / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--device', default=3)\n")
    environment = {**os.environ, "PYTHONPATH": str(site)}

    def pytest_run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", *arguments]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )

    kit = pytest_run("--pyargs", "accelerator_conformance", "--device", "openreg", "--area", "module", folder=site)
    assert kit.returncode == 0, kit.stdout + kit.stderr
    assert (site / "conformance-openreg" / "report.html").is_file()
    # A project beside it keeps its options.
    neighbour = pytest_run("-p", "no:cacheprovider", folder=project)
    assert "1 passed" in neighbour.stdout, neighbour.stdout + neighbour.stderr
