"""The shares of the pages that `make doctest` executes."""

from __future__ import annotations

import commands
import pytest
from environment import ROOT, Fault


def executed(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """What `make doctest` passes to the weaver, after the folder of its output."""
    asked: list[list[str]] = []
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(commands, "_weave", lambda _command, passed: asked.append(passed))
    monkeypatch.setattr(commands.shutil, "rmtree", lambda *_arguments, **_options: None)
    commands.doctest(list(arguments))
    assert asked[0][0] == "--output"
    return asked[0][2:]


def share(monkeypatch: pytest.MonkeyPatch, part: str) -> list[str]:
    monkeypatch.setenv("OPENREG_PAGES", part)
    return executed(monkeypatch)


def test_each_page_is_in_one_share(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = [share(monkeypatch, f"{number}/3") for number in range(3)]
    pages = [page.relative_to(ROOT / "docs" / "source") for page in (ROOT / "docs" / "source").rglob("*.md")]
    assert sorted(page for share in shares for page in share) == sorted(str(page.with_suffix("")) for page in pages)
    assert all(shares)


def test_without_a_share_all_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENREG_PAGES", raising=False)
    assert executed(monkeypatch) == []


def test_a_named_page_is_executed_whatever_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENREG_PAGES", "0/3")
    assert executed(monkeypatch, "accelerator/errors") == ["accelerator/errors"]


@pytest.mark.parametrize("part", ["3/3", "1", "", "a/b", "-1/2", "1/2/3"])
def test_a_share_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    with pytest.raises(Fault, match=rf"make doctest: OPENREG_PAGES: a share is N/M with 0 <= N < M, got '{part}'$"):
        share(monkeypatch, part)
