"""The supported releases of PyTorch: the list in pyproject.toml, and what is derived from it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import prerequisites
import pytest
import torch_requirement
from prerequisites import installed_torch, is_supported_torch, torch_fault, torch_releases, torch_series

from tests.build.venvs import ROOT, bare_venv, write_empty_wheel


@pytest.fixture
def releases(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Another list of releases, which a test may change."""
    listed = ["2.13.0", "2.15.1", "2.14.0"]
    for module in (prerequisites, torch_requirement):
        monkeypatch.setattr(module, "torch_releases", lambda: tuple(listed))
    return listed


def test_series_in_words(releases: list[str]) -> None:
    assert prerequisites.supported_series() == "2.13, 2.15 or 2.14"
    del releases[1:]
    assert prerequisites.supported_series() == "2.13"


@pytest.mark.parametrize(
    ("version", "supported"),
    [("2.13.0", True), ("2.13.9+cu130", True), ("2.15.0a0+gitabc", True), ("2.1.0", False), ("2.130.0", False)],
)
def test_a_release_is_supported_by_its_series(releases: list[str], version: str, supported: bool) -> None:
    assert is_supported_torch(version) == supported


def test_fault_names_all_series_and_the_reference(releases: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites, "installed_torch", lambda: "2.16.0")
    assert torch_fault() == "PyTorch 2.13, 2.15 or 2.14 is needed, found 2.16.0; install torch==2.13.0"
    monkeypatch.setattr(prerequisites, "installed_torch", lambda: "2.14.3")
    assert torch_fault() is None


@pytest.mark.parametrize(
    ("state", "installed", "requirement"),
    [
        ("sdist", "2.14.1+cpu", "torch>=2.13,<2.16"),
        ("wheel", "2.14.1+cpu", "torch==2.14.*"),
        ("editable", "2.15.0", "torch==2.15.*"),
        ("metadata_wheel", None, "torch>=2.13,<2.16"),
    ],
)
def test_a_wheel_requires_the_series_that_it_is_built_for(
    releases: list[str], monkeypatch: pytest.MonkeyPatch, state: str, installed: str | None, requirement: str
) -> None:
    monkeypatch.setattr(torch_requirement, "installed_torch", lambda: installed)
    torch_requirement.build_state(state)
    assert torch_requirement.dynamic_metadata({}, {}) == {"dependencies": [requirement]}
    assert torch_requirement.dynamic_wheel({}) == {"dependencies": True}


def test_the_installed_package_requires_its_torch() -> None:
    installed = installed_torch()
    assert installed
    (required,) = (line for line in metadata.requires("torch_openreg") or () if "extra ==" not in line)
    assert required == f"torch=={torch_series(installed)}.*"


@pytest.mark.long
def test_sources_can_be_built_for_all(tmp_path: Path) -> None:
    code = "import sys; sys.path.insert(0, 'tools'); import build_backend; build_backend.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        (name,) = (name for name in packed.getnames() if re.fullmatch(r"[^/]+/PKG-INFO", name))
        file = packed.extractfile(name)
        assert file
        information = Parser().parsestr(file.read().decode())
    series = [torch_series(release) for release in torch_releases()]
    major, minor = map(int, series[-1].split("."))
    (required,) = (line for line in information.get_all("Requires-Dist", []) if "extra ==" not in line)
    assert set(required.removeprefix("torch").split(",")) == {f">={series[0]}", f"<{major}.{minor + 1}"}
    assert information.get_all("Dynamic") == ["Requires-Dist"]


@pytest.mark.long
def test_pip_refuses_a_wheel_of_another_series(tmp_path: Path) -> None:
    """The message is pip's own. The wheels contain only metadata, which is all that pip reads."""
    ours = metadata.distribution("torch_openreg")
    series = torch_series(installed_torch() or "")
    links = tmp_path / "links"
    write_empty_wheel(links, "torch", "2.99.0", [])
    write_empty_wheel(links, "torch_openreg", ours.version, [f"torch=={series}.*"])
    theirs = bare_venv(tmp_path / "venv").prefix / "bin" / "python"

    def install(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pip", f"--python={theirs}", "install", "--disable-pip-version-check"]
        command += ["--no-index", f"--find-links={links}", *arguments]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        environment = {**inherited, "PIP_CONFIG_FILE": os.devnull}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    ran = install("torch==2.99.0", "torch_openreg")
    assert ran.returncode == 1
    assert f"{ours.version} depends on torch=={series}.*" in ran.stdout + ran.stderr
    assert install("torch==2.99.0").returncode == 0
    ran = install("torch_openreg")  # where the other torch is already installed
    assert ran.returncode == 1
    assert f"No matching distribution found for torch=={series}.*" in ran.stderr
