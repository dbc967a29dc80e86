"""A missing prerequisite stops a build or a command with one line that says what to do."""

from __future__ import annotations

import errno
import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections import namedtuple
from pathlib import Path

import dev
import environment
import prerequisites
import pytest
from commands import COMMANDS
from vendor import names

from tests.build.makefile import make, own_lines
from tests.build.venvs import ROOT, ForeignVenv, bare_venv, foreign_venv

SERIES, REFERENCE = prerequisites.supported_series(), prerequisites.torch_releases()[0]


def executable(path: Path, script: str) -> Path:
    """Writes an executable shell script."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def build_hook(made: ForeignVenv) -> subprocess.CompletedProcess[str]:
    """Calls the first hook that pip calls in a build environment."""
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r}); import build_backend as backend; "
    return made.python(code + "print(backend.get_requires_for_build_wheel())", cwd=ROOT)


def test_isolated_build_names_the_flag(tmp_path: Path) -> None:
    ran = build_hook(bare_venv(tmp_path / "venv"))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        f"torch_openreg: PyTorch {SERIES} is needed and the build environment has none; install "
        f"torch=={REFERENCE} first, then run pip install --no-build-isolation\n"
    )


def test_build_against_another_torch_names_both_versions(tmp_path: Path) -> None:
    made = bare_venv(tmp_path / "venv")
    torch = made.site_packages / "torch"
    torch.mkdir()
    (torch / "__init__.py").touch()
    (torch / "version.py").write_text("__all__ = ['__version__']\n__version__ = '2.12.1+cpu'\n")
    ran = build_hook(made)
    assert ran.returncode == 1
    assert ran.stderr == f"torch_openreg: PyTorch {SERIES} is needed, found 2.12.1+cpu; install torch=={REFERENCE}\n"


def test_build_without_the_build_packages_names_them(tmp_path: Path) -> None:
    made = foreign_venv(tmp_path / "venv")
    (made.site_packages / "scikit_build_core").unlink()
    ran = build_hook(made)
    assert ran.returncode == 1
    assert ran.stderr == ("torch_openreg: the build needs scikit-build-core; run pip install scikit-build-core\n")


def test_build_with_everything_passes_the_hook_on(tmp_path: Path) -> None:
    ran = build_hook(foreign_venv(tmp_path / "venv"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("[")


def test_make_alone_prints_help() -> None:
    ran = make("--always-make")
    assert ran.returncode == 0
    for target in (
        "html",
        "doctest",
        "livehtml",
        "torch",
        "build",
        "test",
        "models",
        "check",
        "vendor",
        "lock",
        "stress",
        "bench",
        "clean",
    ):
        assert f"make {target} " in ran.stdout


def test_the_name_of_a_folder_is_no_success() -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] not in "._"}
    for folder in sorted(folders - set(COMMANDS)):
        expected = f"torch_openreg: {folder} is a folder and no target; make help lists the targets"
        assert own_lines(make(folder)) == [expected]


def test_missing_python_is_one_line() -> None:
    assert own_lines(make("build", "PYTHON=/nonexistent/python3")) == [
        "torch_openreg: Python 3.11 or newer is needed, found no /nonexistent/python3; "
        "name one: make PYTHON=/path/to/python3"
    ]


def test_old_python_is_one_line(tmp_path: Path) -> None:
    pretend = "import sys; sys.version_info = (3, 8, 10); exec(sys.argv[1])"
    pretend = f"import sys; sys.prefix = sys.base_prefix; {pretend}"
    old = executable(tmp_path / "python3.8", f'exec "{sys.executable}" -c "{pretend}" "$2"')
    assert own_lines(make("html", f"PYTHON={old}")) == [
        f"torch_openreg: Python 3.11 or newer is needed, {old} is 3.8; name another: make PYTHON=/path/to/python3"
    ]


def test_an_old_python_of_an_active_environment_is_to_be_left(tmp_path: Path) -> None:
    """Another PYTHON would not help: make works in the active environment."""
    pretend = "import sys; sys.version_info = (3, 8, 10); sys.prefix = '/mine'; exec(sys.argv[1])"
    old = executable(tmp_path / "old", f'exec "{sys.executable}" -c "{pretend}" "$2"')
    assert own_lines(make("html", f"PYTHON={old}")) == [
        f"torch_openreg: Python 3.11 or newer is needed, {old} is 3.8; leave this environment (deactivate), or remove "
        "it"
    ]


def test_missing_compiler_is_one_line() -> None:
    assert own_lines(make("build", f"PYTHON={sys.executable}", CXX="/nonexistent/g++")) == [
        "torch_openreg: a C++20 compiler is needed, found no '/nonexistent/g++' on PATH; "
        "install g++ 11 or newer, or set CXX"
    ]


def test_missing_compiler_on_path_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    ran = make("build", f"PYTHON={sys.executable}", PATH=str(tmp_path), CXX="")
    assert own_lines(ran) == [
        "torch_openreg: a C++20 compiler is needed, found no 'c++' on PATH; install g++ 11 or newer, or set CXX"
    ]


def test_compiler_without_cxx20_is_one_line(tmp_path: Path) -> None:
    old = executable(tmp_path / "g++-7", "echo \"error: unrecognized option '-std=c++20'\" >&2; exit 1")
    assert own_lines(make("build", f"PYTHON={sys.executable}", CXX=str(old))) == [
        f"torch_openreg: a C++20 compiler is needed, {old} does not compile C++20; install g++ 11 or newer, or set CXX"
    ]


def test_a_compiler_may_have_a_launcher_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "env g++ -Wall")
    assert prerequisites.compiler_command() == ["env", "g++", "-Wall"]
    assert prerequisites.compiler_fault() is None
    monkeypatch.setenv("CXX", "env false")
    assert "/env false does not compile C++20; install" in (prerequisites.compiler_fault() or "")


@pytest.mark.parametrize("given", ["", " "])
def test_an_empty_name_of_a_compiler_is_none(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("CXX", given)
    assert prerequisites.compiler_command() == ["c++"]
    assert names._is_taken_by_c("read")  # a tool that compiles


def test_no_tool_and_no_test_reads_the_compiler_in_another_way() -> None:
    """Each would fail with an empty CXX, or with a launcher."""
    reads = re.compile(r"environ(?:\.get\(|\[)\"CXX\"(?!\) or)")
    paths = (path for top in ("benchmarks", "tests", "tools") for path in (ROOT / top).rglob("*.py"))
    found = {str(path.relative_to(ROOT)) for path in paths if reads.search(path.read_text(encoding="utf-8"))}
    assert found == {"tools/prerequisites.py"}


def test_unsupported_platform_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert prerequisites.platform_fault() == "Linux on x86_64 or aarch64 is needed, this is Darwin on arm64"


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_supported_platforms_pass(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert prerequisites.platform_fault() is None


def test_old_python_is_named_to_pip_too(monkeypatch: pytest.MonkeyPatch) -> None:
    version = namedtuple("version", "major minor micro releaselevel serial")
    monkeypatch.setattr(sys, "version_info", version(3, 10, 1, "final", 0))
    said = f"Python 3.11 or newer is needed, {sys.executable} is {platform.python_version()}; "
    monkeypatch.setattr(sys, "prefix", "/mine")
    assert prerequisites.python_fault() == f"{said}leave this environment (deactivate), or remove it"
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert prerequisites.python_fault() == f"{said}name another one: make PYTHON=/path/to/python3"


def test_missing_headers_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert prerequisites.headers_fault() == (
        f"the C headers of {sys.executable} are needed, {tmp_path}/Python.h is missing; "
        "install python3-dev (or python3-devel)"
    )


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_clone_that_cannot_be_written_is_one_line(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refused() -> Path:
        raise OSError(number, os.strerror(number), str(file))

    monkeypatch.setattr(sys, "argv", ["dev.py", "torch"])
    monkeypatch.setattr(environment, "chosen_interpreter", refused)
    file = environment.ROOT / ".venv"
    with pytest.raises(SystemExit) as ended:
        dev.main()
    expected = f"torch_openreg: {file}: {os.strerror(number)}; make writes into its clone: use a clone of your own"
    assert ended.value.code == expected
    file = Path("/proc/elsewhere")
    with pytest.raises(OSError, match="elsewhere"):
        dev.main()
