"""make ... DRIVER=folder HOST_KERNELS=OFF: refused values, the build, the messages, and the place of results."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import command
import driver
import environment
import extension
import pytest
import results
import torch
from prerequisites import torch_releases
from vendor import tree
from vendor.names import Names

from tests.build.makefile import make, own_lines, recipe
from tests.build.venvs import ROOT

DEFAULT = driver.Driver("csrc/driver", "ON")
MINIMAL = driver.Driver("csrc/driver/minimal", "OFF")


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clears the choice of a driver, whatever driver these tests run on."""
    for variable in (driver.FOLDER, driver.KERNELS):
        monkeypatch.setenv(variable, "")  # so that monkeypatch undoes what a test sets
        monkeypatch.delenv(variable)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A driver outside the repository."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "CMakeLists.txt").write_text("add_library (\n  openreg SHARED driver.cpp)\n", encoding="utf-8")
    return tmp_path / "mine"


def test_the_default_is_that_of_cmake() -> None:
    assert driver.chosen() == driver.default() == DEFAULT
    assert not driver.is_chosen()


def test_a_folder_is_relative_to_where_make_runs(monkeypatch: pytest.MonkeyPatch, elsewhere: Path) -> None:
    monkeypatch.chdir(elsewhere.parent)
    driver.choose("mine", "OFF")
    assert driver.chosen() == driver.Driver(str(elsewhere), "OFF")
    monkeypatch.chdir(ROOT / "csrc")
    driver.choose("driver/minimal/", "")
    assert driver.chosen() == MINIMAL
    driver.choose(str(ROOT / "csrc" / "driver"), "ON")
    assert driver.chosen() == DEFAULT


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["build", "DRIVER=nowhere"],
            f"DRIVER=nowhere: there is no folder {ROOT}/nowhere; name a folder whose CMakeLists.txt builds a library "
            "openreg",
        ),
        (
            ["test", "DRIVER=docs"],
            f"DRIVER=docs: {ROOT}/docs has no CMakeLists.txt; name a folder whose CMakeLists.txt builds a library "
            "openreg",
        ),
        (
            ["build", "DRIVER=csrc"],
            f"DRIVER=csrc: {ROOT}/csrc/CMakeLists.txt has no add_library(openreg ...); name a folder whose "
            "CMakeLists.txt builds a library openreg",
        ),
        (["html", "HOST_KERNELS=off"], "HOST_KERNELS=off is neither ON nor OFF"),
        (["build", "DRIVER=~nosuch/d"], "~nosuch/d: there is no home folder ~nosuch"),
        (
            ["vendor", "NAME=acme", "DEST=nowhere/acme", "HOST_KERNELS=OFF"],
            "make vendor takes no DRIVER and no HOST_KERNELS: it builds with the defaults, or not at all",
        ),
        (
            ["next", f"TORCH={torch_releases()[-1]}", "DRIVER=csrc/driver/minimal"],
            "make next takes no DRIVER and no HOST_KERNELS: it builds with the defaults, or not at all",
        ),
        (
            ["proof", "DRIVER=csrc/driver/minimal"],
            "make proof takes no DRIVER and no HOST_KERNELS: it builds with the defaults, or not at all",
        ),
    ],
)
def test_a_wrong_choice_is_one_line(settings: list[str], said: str) -> None:
    assert own_lines(make(*settings, f"PYTHON={sys.executable}")) == [f"torch_openreg: {said}"]


@pytest.mark.parametrize(
    "text",
    [
        "add_library(openreg MODULE a.cpp)",
        "ADD_LIBRARY(${name} SHARED a.cpp)",
        "include(../driver.cmake)",
        "\nadd_subdirectory(src)",
    ],
)
def test_a_library_may_be_built_elsewhere_or_have_its_name_in_a_variable(elsewhere: Path, text: str) -> None:
    (elsewhere / "CMakeLists.txt").write_text(text, encoding="utf-8")
    driver.choose(str(elsewhere), "")
    assert driver.chosen().folder == str(elsewhere)


def test_no_variable_of_the_environment_chooses() -> None:
    wrong = {"DRIVER": "nowhere", "HOST_KERNELS": "perhaps"}
    assert recipe("test", variables=wrong) == ["--driver", "", "--host-kernels", "", "test"]
    given = ["DRIVER=a b", "HOST_KERNELS=OFF"]
    assert recipe("test", *given, variables=wrong) == ["--driver", "a b", "--host-kernels", "OFF", "test"]


def choose(chosen: driver.Driver) -> None:
    """Chooses a driver as a command does, from the root of the repository."""
    driver.choose(str(ROOT / chosen.folder), chosen.host_kernels)


def test_another_choice_is_another_build() -> None:
    folders, keys = set(), set()
    for chosen in (DEFAULT, MINIMAL, driver.Driver("csrc/driver", "OFF")):
        choose(chosen)
        folders.add(extension.build_folder())
        keys.add(extension._install_key())
    assert len(folders) == len(keys) == 3


class Installer:
    """Stands in for pip and ninja, and records their commands."""

    def __init__(self, root: Path) -> None:
        self.root, self.ran = root, list[list[str]]()
        (root / "site" / "torch_openreg").mkdir(parents=True)

    def run(self, command: list[str]) -> None:
        self.ran.append(command)
        library = self.root / "site" / "torch_openreg" / "library.so"
        if "pip" in command:
            folder = next(word.partition("build-dir=")[2] for word in command if "build-dir=" in word)
            (self.root / folder).mkdir(parents=True, exist_ok=True)
            (self.root / folder / "CMakeCache.txt").write_text(f"CMAKE_COMMAND:INTERNAL={sys.executable}\n")
            library.write_text(str(len(self.ran)))
            os.utime(library, (len(self.ran), len(self.ran)))


@pytest.fixture
def installer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Installer:
    """A repository and an environment in which nothing is compiled."""
    for name in ("pyproject.toml", "torch_openreg_autoload.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "torch_openreg").mkdir()
    made = Installer(tmp_path)
    monkeypatch.setattr(extension, "ROOT", tmp_path)
    monkeypatch.setattr("environment.ROOT", tmp_path)
    monkeypatch.setattr(extension, "run_with_progress", made.run)
    monkeypatch.setattr(extension, "_is_installed_from_here", lambda: True)
    monkeypatch.setattr(extension, "_installed_folder", lambda: tmp_path / "site")
    return made


def test_pip_is_told_the_choice_and_the_default_alike(installer: Installer) -> None:
    for chosen in (DEFAULT, MINIMAL):
        choose(chosen)
        extension.ensure_extension()
        assert {
            f"--config-settings=cmake.define.DRIVER={chosen.folder}",
            f"--config-settings=cmake.define.HOST_KERNELS={chosen.host_kernels}",
        } < set(installer.ran[-1])


def test_the_last_install_is_reused_and_that_of_another_driver_never(installer: Installer) -> None:
    def ran(chosen: driver.Driver) -> str:
        before = len(installer.ran)
        choose(chosen)
        extension.ensure_extension()
        new = installer.ran[before:]
        return "pip" if "pip" in new[0] else " ".join(words[1] for words in new)

    assert [ran(chosen) for chosen in (DEFAULT, DEFAULT, MINIMAL, MINIMAL, DEFAULT, DEFAULT)] == [
        "pip", "--build --install", "pip", "--build --install", "pip", "--build --install",
    ]  # fmt: skip
    # Each choice reuses its own objects, and a single lock serializes the installations.
    assert len([path for path in (installer.root / "build").iterdir() if path.is_dir()]) == 2
    assert len(list((installer.root / "build").glob("*.lock"))) == 1


def test_another_compiler_of_the_same_name_builds_everything_again(
    installer: Installer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after update-alternatives: no command changes, so ninja would keep the objects."""
    compiler = installer.root / "c++"
    monkeypatch.setenv("CXX", str(compiler))
    built = extension.build_folder() / "object.o"
    for version, is_kept in (("12.2", False), ("12.2", True), ("14.1", False)):
        compiler.write_text(f"#!/bin/sh\necho g++ {version}\necho free\n")
        compiler.chmod(0o755)
        extension.ensure_extension()
        assert built.exists() == is_kept
        assert ("pip" in installer.ran[-1]) != is_kept
        built.touch()
    said = "-- the last build was by g++ 12.2, and now there is g++ 14.1: building everything again"
    assert said in capsys.readouterr().out.splitlines()


def test_a_stamp_that_a_full_disk_left_empty_is_no_install(installer: Installer) -> None:
    extension.ensure_extension()
    (extension.build_folder() / "installed").write_text("")
    extension.ensure_extension()
    assert ["pip" in words for words in installer.ran] == [True, True]


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes commands install nothing."""
    for name in ("ensure_torch", "ensure_requirements", "ensure_extension"):
        monkeypatch.setattr(command, name, lambda *_: None)


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (DEFAULT, DEFAULT, ""),
        (None, DEFAULT, ""),
        (MINIMAL, MINIMAL, "-- driver csrc/driver/minimal, without host kernels\n"),
        (
            MINIMAL,
            DEFAULT,
            "-- driver csrc/driver, with host kernels; the last install had driver csrc/driver/minimal, without host "
            "kernels\n",
        ),
    ],
)
def test_another_driver_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    before: driver.Driver | None,
    now: driver.Driver,
    said: str,
) -> None:
    monkeypatch.setattr(driver, "installed", lambda: before)
    choose(now)
    command.Command(print, extension=True).prepare("test")
    assert capsys.readouterr().out == said


@pytest.mark.usefixtures("prepared")
def test_a_driver_elsewhere_is_known_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], elsewhere: Path
) -> None:
    # The package contains no path of the build machine.
    monkeypatch.setattr(driver, "installed", lambda: driver.Driver("mine", "OFF"))
    driver.choose(str(elsewhere), "OFF")
    command.Command(print, extension=True).prepare("test")
    assert capsys.readouterr().out == f"-- driver {elsewhere}, without host kernels\n"


def test_a_command_that_builds_nothing_with_it_refuses_it() -> None:
    choose(MINIMAL)
    with pytest.raises(environment.Fault, match="make lock takes no DRIVER and no HOST_KERNELS"):
        command.Command(print).prepare("lock")


def test_reports_name_devices_driver_and_host_kernels() -> None:
    about = driver.about_device()
    assert about.startswith(f"{torch.accelerator.device_count()} x {torch.openreg.get_device_name()} (")
    assert about.endswith(f"), {driver.installed()}")


@contextmanager
def built_with(monkeypatch: pytest.MonkeyPatch, about: driver.Driver) -> Iterator[None]:
    with monkeypatch.context() as patched:
        for module in (driver, results):
            patched.setattr(module, "installed", lambda: about)
        yield


def test_a_committed_result_is_of_the_default_driver(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(driver, "ROOT", tmp_path)
    made = results.Result(Path("docs", "proof", "opinfo.md"), ("*.py",), "make opinfo")
    with built_with(monkeypatch, MINIMAL):
        monkeypatch.setattr(driver, "default", lambda: DEFAULT)
        monkeypatch.setattr(results, "default", lambda: DEFAULT)
        assert driver.result(made.path) == Path("build/results/csrc-driver-minimal-off/opinfo.md")
        assert driver.result(tmp_path / made.path) == tmp_path / "build/results/csrc-driver-minimal-off/opinfo.md"
        made.note(tmp_path)
    assert capsys.readouterr().out.splitlines()[0] == (
        "-- driver csrc/driver/minimal, without host kernels: the result goes to "
        "build/results/csrc-driver-minimal-off/opinfo.md, and opinfo.md of the defaults stays"
    )
    assert not (tmp_path / results.INPUTS).exists()
    with built_with(monkeypatch, DEFAULT):
        assert driver.result(made.path) == made.path
        made.note(tmp_path)
    assert (tmp_path / results.INPUTS).exists()


def test_a_vendors_repository_takes_the_same_choice(tmp_path: Path) -> None:
    files = tree.files(Names("acme", "am"), [])
    (tmp_path / "Makefile").write_text(files["Makefile"])
    (tmp_path / "tests").mkdir()
    ran = make("tests", folder=tmp_path)
    assert own_lines(ran) == ["torch_acme: tests is a folder and no target; make help lists the targets"]
    chosen = recipe("test", "DRIVER=../my driver", "HOST_KERNELS=OFF", folder=tmp_path)
    assert chosen == ["--driver", "../my driver", "--host-kernels", "OFF", "test"]
    assert 'FOLDER, KERNELS = "ACME_BUILD_DRIVER", "ACME_BUILD_HOST_KERNELS"' in files["tools/driver.py"]
    assert "builds a library acme_rt" in tree.files(Names("acme", "am", "acme_rt"), [])["tools/driver.py"]
    assert "about_device" in files["tests/conftest.py"]
    assert "about_device" in files["tools/commands.py"]
