"""make vendor: names that are accepted, and the repository that is written."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
from environment import ROOT, Fault
from vendor import cli, names, place, tree

ACME = names.Names("acme", "am")


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return tree.files(ACME)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "PyTorch reads letters and underscores"),
        ("Acme", "and no capitals"),
        ("acme1", "a digit is its index"),
        ("acme-x", "letters and underscores"),
        ("openreg", "that is the name that is replaced"),
        ("my_openreg", "that is the name that is replaced"),
        ("class", "it is a keyword of Python"),
        ("cuda", "it is a device of PyTorch's own: cpu, cuda,"),
        ("mkldnn", "it is a device of PyTorch's own"),
        ("nn", r"torch\.nn exists already"),
        ("data", r"torch\.Tensor\.data exists already"),
        ("leaf", r"torch\.Tensor\.is_leaf exists already"),
        ("train", r"torch\.nn\.Module\.train exists already"),
    ],
)
def test_names_that_are_refused(name: str, why: str) -> None:
    with pytest.raises(Fault, match=rf"^a backend cannot be called '{re.escape(name)}': .*{why}"):
        names.chosen(name, None)


@pytest.mark.parametrize(("prefix", "why"), [("A", "give two to eight letters"), ("cu", "those of another driver do")])
def test_prefixes_that_are_refused(prefix: str, why: str) -> None:
    with pytest.raises(Fault, match=why):
        names.chosen("acme", prefix)


def test_the_prefix_is_the_initials() -> None:
    assert names.chosen("acme", None) == ACME
    assert [names.chosen(name, None).prefix for name in ("my_npu", "xfr", "gaudi")] == ["mp", "xf", "gd"]
    assert names.chosen("acme", "acme").prefix == "acme"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ('torch.ones(2, device="openreg:1")', 'torch.ones(2, device="acme:1")'),
        (
            "check(orMemcpyAsync(to, from, orMemcpyHostToDevice));",
            "check(amMemcpyAsync(to, from, amMemcpyHostToDevice));",
        ),
        ("OR_API orError_t orMalloc(void** pointer);", "AM_API amError_t amMalloc(void** pointer);"),
        ("getenv(OPENREG_DEVICE_COUNT)", "getenv(ACME_DEVICE_COUNT)"),
        ("import torch_openreg._C; x.is_openreg", "import torch_acme._C; x.is_acme"),
        (
            "for or more, or Else, orElse1? memory_order, ordinal",
            "for or more, or Else, amElse1? memory_order, ordinal",
        ),
    ],
)
def test_what_is_renamed(ours: str, theirs: str) -> None:
    assert ACME.put_into(ours) == theirs


def test_nothing_of_ours_is_left(files: dict[str, str]) -> None:
    left = [path for path, text in files.items() if re.search("openreg", path + text, re.IGNORECASE)]
    assert left == ["NOTICE"]
    ours = re.compile(r"\bor[A-Z]\w+|LITERALINCLUDE|NOT PROVEN|docs/|examples/")
    assert {path: found for path, text in files.items() if (found := ours.findall(text)) and path != ".gitignore"} == {}


def test_every_source_is_there(files: dict[str, str]) -> None:
    """All that CMake names, all that is included, and what pytest and pip begin with."""
    csrc = files["csrc/CMakeLists.txt"] + files["csrc/driver/CMakeLists.txt"]
    for source in re.findall(r"(?:aten|runtime|stable|python)/\w+\.cpp", csrc):
        assert f"csrc/{source}" in files, source
    for path, text in files.items():
        for header in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            folders = ("csrc", "csrc/driver", "conformance/driver", str(Path(path).parent))
            assert {os.path.normpath(f"{folder}/{header}") for folder in folders} & set(files), (path, header)
    assert {"torch_acme/__init__.py", "torch_acme_autoload.py", "csrc/driver/acme.h", "tests/driver/acme.py"} <= set(
        files
    )
    for path, text in files.items():
        if path.endswith(".py"):
            compile(text, path, "exec")


def test_the_tests_import_nothing_else(files: dict[str, str]) -> None:
    modules = {f"{path.removesuffix('.py').replace('/', '.')}" for path in files if path.endswith(".py")} | {
        "tests.conftest",
        "tests.models",
    }
    for path, text in files.items():
        if path.startswith("tests/"):
            for module in re.findall(
                r"^from ((?:tests|tools|docs|examples|benchmarks)[\w.]*) import", text, re.MULTILINE
            ):
                assert module in modules or any(other.startswith(f"{module}.") for other in modules), (path, module)


def test_the_project_asks_for_what_ours_asks_for(files: dict[str, str]) -> None:
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    theirs = tomllib.loads(files["pyproject.toml"])
    assert theirs["build-system"] == ours["build-system"]
    for key in ("requires-python", "dependencies"):
        assert theirs["project"][key] == ours["project"][key]
    for extra in ("build", "test"):
        assert theirs["project"]["optional-dependencies"][extra] == ours["project"]["optional-dependencies"][extra]
    assert theirs["project"]["entry-points"]["torch.backends"] == {"acme": "torch_acme_autoload:autoload"}
    options = ("filterwarnings", "addopts", "faulthandler_timeout", "norecursedirs")
    assert [theirs["tool"]["pytest"]["ini_options"][name] for name in options] == [
        ours["tool"]["pytest"]["ini_options"][name] for name in options
    ]


def test_a_repository_is_written_at_once_or_not_at_all(tmp_path: Path) -> None:
    place.write({"a": "1", "b/c": "#!/bin/sh\n"}, tmp_path / "new")
    assert (tmp_path / "new" / "a").read_text() == "1"
    assert os.access(tmp_path / "new" / "b" / "c", os.X_OK)
    with pytest.raises(Fault, match=r"new exists; name a folder that does not, or remove it"):
        place.write({"a": "2"}, tmp_path / "new")
    with pytest.raises(Fault, match=r"nowhere is no folder, and the backend is to be written into it"):
        place.write({"a": "2"}, tmp_path / "nowhere" / "new")
    with pytest.raises(IsADirectoryError):
        place.write({"a/b": "1", "a": "2"}, tmp_path / "half")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]


@pytest.mark.parametrize("missing", ["--name", "--dest"])
def test_a_name_and_a_folder_are_needed(missing: str, tmp_path: Path) -> None:
    given = {"--name": "acme", "--dest": str(tmp_path / "new")} | {missing: ""}
    with pytest.raises(Fault, match="make vendor NAME=acme DEST"):
        cli.main([part for pair in given.items() for part in pair])
    assert list(tmp_path.iterdir()) == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    destination = tmp_path / "torch_acme"
    cli.main(["--name", "acme", "--dest", str(destination)])
    assert f"files of the backend acme are in {destination}; there, run make test" in capsys.readouterr().out
    notice = (destination / "NOTICE").read_text()
    assert "torch_openreg" in notice
    assert re.search(r"^Commit [0-9a-f]{40} of \d{4}-\d\d-\d\d", notice, re.MULTILINE)
    assert (destination / "LICENSE").read_text().startswith("BSD 3-Clause License")
