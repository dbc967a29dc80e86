"""The environment in which a command works, and what it finds missing there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import environment
import extension
import pytest
from environment import ROOT
from prerequisites import torch_releases

from tests.build.makefile import make

REFERENCE = torch_releases()[0]


@pytest.fixture(autouse=True)
def _bytecode_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A set of distributions that replaces the installed ones."""
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


def test_without_packaging_all_counts_as_missing(installed: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    installed["ninja"] = "1.11"
    assert environment.is_met("ninja>=1.11")
    monkeypatch.setitem(sys.modules, "packaging.requirements", None)
    assert not environment.is_met("ninja>=1.11")


def test_active_environment_is_used() -> None:
    assert environment.chosen_interpreter() == Path(sys.executable)


def test_active_environment_is_used_though_python_is_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    monkeypatch.setattr(environment, "in_virtual_environment", lambda: False)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    assert environment.chosen_interpreter() == tmp_path / "bin" / "python"


@pytest.mark.long
def test_without_an_environment_one_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "in_virtual_environment", lambda: False)
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    interpreter = environment.chosen_interpreter()
    assert interpreter.exists()
    made = interpreter.stat().st_ctime_ns, (tmp_path / ".venv" / "pyvenv.cfg").stat().st_mtime_ns
    assert environment.chosen_interpreter() == interpreter
    assert (interpreter.stat().st_ctime_ns, (tmp_path / ".venv" / "pyvenv.cfg").stat().st_mtime_ns) == made


@pytest.mark.parametrize("recorded", ["version = 3.9.2", "version_info = 3.9.2.final.0"])
def test_an_environment_of_another_python_than_the_named_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorded: str
) -> None:
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    for name in ("complete", "bin/python"):
        (venv / name).touch()
    (venv / "pyvenv.cfg").write_text(f"home = /usr/bin\n{recorded}\n")
    monkeypatch.setattr(environment, "in_virtual_environment", lambda: False)
    monkeypatch.setattr(environment, "VENV", venv)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("PYTHON", raising=False)
    assert environment.chosen_interpreter() == venv / "bin" / "python"
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    monkeypatch.setenv("PYTHON", f"python{ours}")
    said = f"PYTHON=python{ours} is {ours}, and {venv} has 3.9: remove it, and make creates another"
    with pytest.raises(environment.Fault, match=f"^{re.escape(said)}$"):
        environment.chosen_interpreter()
    (venv / "pyvenv.cfg").write_text(f"version = {ours}.99\n")
    assert environment.chosen_interpreter() == venv / "bin" / "python"


def test_make_hands_on_a_python_that_its_user_has_named() -> None:
    for word, variable in ((f"PYTHON={sys.executable}", ""), ("--silent", sys.executable), ("--silent", "")):
        ran = make("--eval=shown: ; echo PYTHON=$$PYTHON", "shown", word, PYTHON=variable)
        assert ran.stdout == f"PYTHON={word.partition('=')[2] or variable}\n"


@pytest.mark.parametrize("own", [".venv/notes", ".venv"])
def test_an_environment_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str) -> None:
    file = tmp_path / own
    file.parent.mkdir(exist_ok=True)
    file.touch()
    monkeypatch.setattr(environment, "in_virtual_environment", lambda: False)
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    with pytest.raises(environment.Fault, match="make did not create it: activate it, or move it away"):
        environment.chosen_interpreter()
    assert file.exists()


def test_an_environment_that_was_interrupted_is_made_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "in_virtual_environment", lambda: False)
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    run, commands = subprocess.run, []

    def interrupted(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        if len(commands) == 1:
            (tmp_path / ".venv" / "half").touch()
            raise KeyboardInterrupt
        return run([*command, "--without-pip"], **options)

    monkeypatch.setattr(subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        environment.chosen_interpreter()
    assert environment.chosen_interpreter().exists()
    assert not (tmp_path / ".venv" / "half").exists()
    assert environment.chosen_interpreter().exists()
    assert len(commands) == 2


def test_two_first_commands_create_one_environment(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; import environment\n"
        "environment.ROOT = Path(sys.argv[1]); environment.VENV = Path(sys.argv[1], '.venv')\n"
        "environment.in_virtual_environment = lambda: False\n"
        "def create():\n"
        "    print('created'); time.sleep(0.5)\n"
        "    Path(environment.VENV, 'bin').mkdir(); Path(environment.VENV, 'bin', 'python').touch()\n"
        "environment._create_venv = create\n"
        "environment.chosen_interpreter()\n"
    )
    variables = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    variables["PYTHONPATH"] = str(ROOT / "tools")
    command = [sys.executable, "-c", code, str(tmp_path)]
    both = [subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate()[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sorted(line for lines in said for line in lines.splitlines()) == [
        "-- another command is working in this environment, waiting for it",
        "created",
    ]


def test_two_commands_install_once(installed: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def locked() -> Iterator[None]:
        installed["ninja"] = "1.13"  # by the command that had the lock
        yield

    monkeypatch.setattr(environment, "locked", locked)
    monkeypatch.setattr(environment, "requirements", lambda *_extras: ["ninja>=1.11"])
    monkeypatch.delattr(environment, "pip")
    environment.ensure_requirements("build")


@pytest.mark.parametrize(("version", "shares"), [(REFERENCE, "true"), ("2.12.1", "false"), (None, "false")])
def test_new_environment_sees_the_parent_only_for_its_torch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str | None, shares: str
) -> None:
    monkeypatch.setattr(environment, "in_virtual_environment", lambda: False)
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(environment, "installed_torch", lambda: version)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    run = subprocess.run
    # Without pip, which takes seconds to unpack and is not used.
    monkeypatch.setattr(subprocess, "run", lambda command, **options: run([*command, "--without-pip"], **options))
    environment.chosen_interpreter()
    assert f"include-system-site-packages = {shares}" in (tmp_path / ".venv" / "pyvenv.cfg").read_text()


def test_another_torch_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "installed_torch", lambda: "2.12.1")
    monkeypatch.setattr("prerequisites.installed_torch", lambda: "2.12.1")
    with pytest.raises(environment.Fault, match=re.escape(f"is needed, found 2.12.1; install torch=={REFERENCE} in")):
        environment.ensure_torch()


@pytest.mark.parametrize(("version", "is_own"), [(torch_releases()[-1], True), (REFERENCE, True), (REFERENCE, False)])
def test_pages_need_the_reference(monkeypatch: pytest.MonkeyPatch, version: str, is_own: bool) -> None:
    monkeypatch.setattr(environment, "installed_torch", lambda: version)
    monkeypatch.setattr(environment, "torch_fault", lambda: None)
    monkeypatch.setattr(environment, "_has_own_torch", lambda: is_own)
    environment.ensure_torch()  # commands that read no pages accept each of them
    if version == REFERENCE:
        environment.ensure_torch(for_pages=True)
        return
    monkeypatch.setattr(environment, "VENV", Path("/elsewhere"))
    with pytest.raises(environment.Fault, match=re.escape(f"{sys.prefix} has {version}: use another environment")):
        environment.ensure_torch(for_pages=True)
    monkeypatch.setattr(environment, "VENV", Path(sys.prefix))
    with pytest.raises(environment.Fault, match=rf"has {re.escape(version)}: remove it, and make creates another$"):
        environment.ensure_torch(for_pages=True)
    monkeypatch.setenv(environment.PAGES_OF_ANOTHER_TORCH, "1")
    environment.ensure_torch(for_pages=True)


def test_pages_cover_another_torch_of_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(environment, "installed_torch", lambda: torch_releases()[-1])
    monkeypatch.setattr(environment, "torch_fault", lambda: None)
    monkeypatch.setattr(environment, "_has_own_torch", lambda: bool(ran))
    monkeypatch.setattr(environment, "_age_torch", lambda: None)
    monkeypatch.setattr(environment, "pip", lambda *arguments: ran.append(arguments))
    environment.ensure_torch()
    assert ran == []
    environment.ensure_torch(for_pages=True)
    assert ran == [("install", "--no-compile", f"torch=={REFERENCE}")]


def test_modules_are_compiled_where_python_keeps_no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(environment, "installed_torch", lambda: None)
    monkeypatch.setattr(environment, "torch_fault", lambda: None)
    monkeypatch.setattr(environment, "_age_torch", lambda: None)
    monkeypatch.setattr(environment, "pip", lambda *arguments: ran.append(arguments))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    environment.ensure_torch()
    assert ran == [("install", f"torch=={REFERENCE}")]


def test_what_a_build_reads_of_torch_is_older_than_any_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    header, module = tmp_path / "torch" / "a.h", tmp_path / "torch" / "a.py"
    record = tmp_path / "torch-2.13.0.dist-info" / "RECORD"
    for file in (header, module, record):
        file.parent.mkdir(exist_ok=True)
        file.touch()
    installed_at = module.stat().st_mtime
    record.write_text("torch/a.h,sha256=abc,0\ntorch/a.py,sha256=def,0\ntorch/gone.pyc,,\n")
    monkeypatch.setattr(metadata, "distribution", lambda _name: metadata.PathDistribution(record.parent))
    monkeypatch.setattr(environment, "installed_torch", lambda: None)
    monkeypatch.setattr(environment, "torch_fault", lambda: None)
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(environment, "pip", lambda *arguments: ran.append(arguments))
    environment.ensure_torch()
    assert ran == [("install", "--no-compile", f"torch=={REFERENCE}")]
    assert header.stat().st_mtime == environment.LONG_AGO
    assert module.stat().st_mtime == installed_at


def test_a_torch_whose_installation_was_interrupted_is_installed_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    # As after an interrupt: pip has already written version.py.
    monkeypatch.setattr(environment, "installed_torch", lambda: REFERENCE)
    monkeypatch.setattr(environment, "torch_fault", lambda: None)
    monkeypatch.setattr(environment, "_age_torch", lambda: None)
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(environment, "pip", lambda *arguments: ran.append(arguments))
    environment.ensure_torch()
    assert ran == []
    monkeypatch.setattr(environment, "installed_torch", lambda: None)

    def interrupted(*_arguments: str) -> None:
        raise KeyboardInterrupt  # not by a signal, which a process in the background may ignore

    with monkeypatch.context() as patch:
        patch.setattr(environment, "pip", interrupted)
        with pytest.raises(KeyboardInterrupt):
            environment.ensure_torch()
    monkeypatch.setattr(environment, "installed_torch", lambda: REFERENCE)
    for _ in range(2):
        environment.ensure_torch()
    assert ran == [("install", "--no-compile", "--ignore-installed", f"torch=={REFERENCE}")]


def test_a_torch_that_the_user_installs_instead_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def failing(*arguments: str) -> None:
        raise environment.Fault(f"pip {' '.join(arguments)} failed")

    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(environment, "installed_torch", lambda: None)
    monkeypatch.setattr(environment, "pip", failing)
    with pytest.raises(environment.Fault, match="failed"):
        environment.ensure_torch()
    # Then the user has installed another release.
    monkeypatch.setattr(environment, "installed_torch", lambda: torch_releases()[-1])
    monkeypatch.setattr(environment, "torch_fault", lambda: None)
    environment.ensure_torch()


def test_a_build_folder_belongs_to_the_files_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = extension.build_folder()
    assert ours == extension.build_folder()
    monkeypatch.setattr(extension, "torch_files", lambda: ["torch/include/a.h,sha256=abc,0"])
    assert extension.build_folder() != ours


def test_a_build_folder_belongs_to_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    ours, installed = extension.build_folder(), extension._install_key()
    folders = {ours}
    for compiler in ("clang++", "/opt/g++"):
        monkeypatch.setenv("CXX", compiler)
        folders.add(extension.build_folder())
        assert extension._install_key() != installed
    assert len(folders) == 3
    monkeypatch.setenv("CXX", "")
    assert (extension.build_folder(), extension._install_key()) == (ours, installed)


@pytest.mark.parametrize("name", [name for name in extension._OPTIONS if name != "CXX"])
def test_a_build_folder_belongs_to_the_options_that_are_read_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "")
    ours, installed = extension.build_folder(), extension._install_key()
    monkeypatch.delenv(name)
    assert (extension.build_folder(), extension._install_key()) == (ours, installed)
    monkeypatch.setenv(name, "-DNDEBUG")
    assert extension.build_folder() != ours
    assert extension._install_key() != installed
