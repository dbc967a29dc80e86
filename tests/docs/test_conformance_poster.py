from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.weaver.conftest import ROOT

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

POSTER = "```{conformance-poster}\n```\n"


@pytest.mark.long
def test_sheet_is_in_the_page_and_beside_it(repository: Repository) -> None:
    (repository.root / "conformance").symlink_to(ROOT / "conformance")
    repository.add(POSTER)
    read = repository.build("dummy")
    assert read.status == 0, read.warnings
    assert not list(read.output.glob("*_poster.html"))

    result = repository.build()
    assert result.status == 0, result.warnings
    page, sheet = ((result.output / name).read_text() for name in ("index.html", "index_poster.html"))
    assert "<a href='index_poster.html' download=" in page
    boxes = sheet.count("<li class='box ")
    assert boxes > 100
    assert page.count("<li class='box ") == boxes
    assert "<a href='accelerator/hooks.html'>hooks</a>" in page
    # The embedded sheet brings no second landmark into a page, and the standalone one has its own.
    assert sheet.count("<main>") == 1
    assert "<main>" not in page[page.index("<div class='poster") :]
    # Only the standalone sheet has colors of its own.
    assert "prefers-color-scheme" in sheet
    assert "--poster-ink:" not in page


def test_a_kit_that_is_not_there_is_named(repository: Repository) -> None:
    line = repository.add(POSTER)
    repository.build().assert_fault(
        f"index.md:{line}", "conformance-poster: ", "No module named accelerator_conformance"
    )
