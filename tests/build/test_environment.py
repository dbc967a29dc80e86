"""Which environment a command works in, and what it finds missing there."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import environment
import pytest


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A set of distributions that takes the place of the installed ones."""
    versions: dict[str, str] = {}

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)
    return versions


@pytest.mark.parametrize(
    ("requirement", "version", "met"),
    [
        ("sphinx==9.0.4", "9.0.4", True),
        ("sphinx==9.0.4", "9.0.5", False),
        ("sphinx==9.0", "9.0.0", True),
        ("cmake>=3.25", "4.0.1.post1", True),
        ("cmake>=3.25", "3.9", False),
        ("pytest>=9,<10", "9.2.0", True),
        ("pytest>=9,<10", "10.0", False),
        ("ninja", "1.0", True),
    ],
)
def test_requirement_is_compared_by_number(
    installed: dict[str, str], requirement: str, version: str, met: bool
) -> None:
    installed[requirement.partition("=")[0].rstrip("><")] = version
    assert environment.is_met(requirement) is met


def test_absent_distribution_does_not_meet_a_requirement(installed: dict[str, str]) -> None:
    assert not environment.is_met("ninja")


def test_requirement_of_another_form_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'numpy~=2\.0' is none of name, name==1\.2, name>=1,<2"):
        environment.is_met("numpy~=2.0")


@pytest.mark.parametrize("extra", ["build", "docs", "test", "check"])
def test_every_requirement_of_the_project_can_be_compared(extra: str) -> None:
    for requirement in environment.requirements(extra):
        environment.is_met(requirement)


def test_active_environment_is_used() -> None:
    assert environment.chosen_interpreter() == Path(sys.executable)


def test_active_environment_is_used_though_python_is_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    monkeypatch.setattr(environment, "in_virtual_environment", lambda: False)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    assert environment.chosen_interpreter() == tmp_path / "bin" / "python"


def test_without_an_environment_one_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "in_virtual_environment", lambda: False)
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    interpreter = environment.chosen_interpreter()
    assert interpreter.exists()
    made = interpreter.stat().st_ctime_ns, (tmp_path / ".venv" / "pyvenv.cfg").stat().st_mtime_ns
    assert environment.chosen_interpreter() == interpreter
    assert (interpreter.stat().st_ctime_ns, (tmp_path / ".venv" / "pyvenv.cfg").stat().st_mtime_ns) == made


@pytest.mark.parametrize(("version", "shares"), [("2.13.0", "true"), ("2.12.1", "false"), (None, "false")])
def test_new_environment_sees_the_parent_only_for_its_torch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None, shares: str
) -> None:
    monkeypatch.setattr(environment, "in_virtual_environment", lambda: False)
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(environment, "installed_torch", lambda: version)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    environment.chosen_interpreter()
    assert f"include-system-site-packages = {shares}" in (tmp_path / ".venv" / "pyvenv.cfg").read_text()


def test_another_torch_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "installed_torch", lambda: "2.12.1")
    monkeypatch.setattr("prerequisites.installed_torch", lambda: "2.12.1")
    with pytest.raises(environment.Fault, match=r"PyTorch 2\.13 is needed, found 2\.12\.1; install torch==2\.13\.0 in"):
        environment.ensure_torch()
