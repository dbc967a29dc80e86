from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.weaver.conftest import SETTINGS
from tests.weaver.test_interface_table import table

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

HEADERS = "torch:ATen/Hooks.h#Hooks"
INSTALLED = {**SETTINGS["installed"], "title": "PyTorch", "releases": "project.toml#tool.torch.releases"}


@pytest.fixture
def torch(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A torch 2.14, in a project that supports 2.13 to 2.15."""
    from weaver.pages import interface_table, release_roles
    from weaver.sources import installed

    repository.write("project.toml", '[tool.torch]\nreleases = ["2.14.0", "2.13.1", "2.15.0"]\n')
    repository.write("torch/include/ATen/Hooks.h", "struct Hooks {\n  virtual void init();\n};\n")
    repository.configure(installed=INSTALLED)
    monkeypatch.setattr(installed, "folder", lambda package: repository.root / package)
    for module in (installed, interface_table, release_roles):
        monkeypatch.setattr(module, "release", lambda package: "2.14.3")
    return repository


def test_a_mark_says_for_which_releases(torch: Repository) -> None:
    torch.add("One {since}`2.14`, one {until}`2.13`.\n")
    result = torch.build()
    assert result.status == 0, result.warnings
    html = (result.output / "index.html").read_text(encoding="utf-8")
    assert '<span class="release-mark">since PyTorch 2.14</span>' in html
    assert '<span class="release-mark">until PyTorch 2.13</span>' in html


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("{since}`2.16`", "is none of them; the series are 2.13, 2.14, 2.15"),
        ("{since}`2.14.0`", "is none of them"),
        ("{since}`2.13`", "holds for all of them"),
        ("{until}`2.15`", "holds for all of them"),
    ],
)
def test_a_mark_that_says_nothing_is_a_fault(torch: Repository, mark: str, message: str) -> None:
    line = torch.add(f"One {mark}.\n")
    torch.build().assert_fault(f"index.md:{line}", mark, message)


def test_without_a_list_no_mark_is_possible(torch: Repository) -> None:
    torch.configure(installed={**INSTALLED, "releases": ""})
    line = torch.add("One {since}`2.14`.\n")
    torch.build().assert_fault(f"index.md:{line}", "is none of them; the series are none")


@pytest.mark.parametrize("row", ["`stop` {since}`2.15`", "`stop` {until}`2.13`"])
def test_a_row_of_other_releases_names_what_is_not_declared(torch: Repository, row: str) -> None:
    torch.add(table(HEADERS, "`init`", row))
    result = torch.build()
    assert result.status == 0, result.warnings


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["`init`", "`stop` {since}`2.14`"], "`stop` is no virtual member function"),
        (["`init` {since}`2.15`"], "torch 2.14.3 declares `init`, and its row is marked for other releases"),
        (["`init` {until}`2.13`"], "torch 2.14.3 declares `init`, and its row is marked for other releases"),
    ],
)
def test_a_row_is_held_to_its_releases(torch: Repository, rows: list[str], message: str) -> None:
    torch.add(table(HEADERS, *rows))
    result = torch.build()
    assert result.status != 0
    assert message in result.warnings
