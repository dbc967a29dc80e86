"""`make browser` finds the faults of a page."""

from __future__ import annotations

import shutil
from pathlib import Path

import browser
import chromium
import pytest
from environment import Fault
from share import Share

GOOD = (
    "<!doctype html><html lang='en'><head><title>Good</title><meta name='viewport' content='width=device-width'></head>"
    "<body><main><h1>Good</h1><div style='overflow-x:auto' tabindex='0'><pre>"
    + "wide " * 999
    + "</pre></div>{}</main></body></html>"
)
pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, chromium.BROWSERS)), reason="Chromium is not installed; `make browser` says how"
)


def judged(folder: Path, body: str, part: Share = browser.ALL) -> list[str]:
    (folder / "page.html").write_text(GOOD.format(body), encoding="utf-8")
    return browser.judge(folder, part)[0]


@pytest.mark.long
def test_a_page_without_a_fault(tmp_path: Path) -> None:
    assert judged(tmp_path, "") == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<p class='big' style='width:700px'>x</p>", "page.html: 388 pixels wider than a window of 320: p.big"),
        ("<script>throw new Error('oh')</script>", "page.html: script: oh"),
        ("<script>console.error('oh')</script>", "page.html: console: oh"),
        ("<script src='http://127.0.0.1:9/x.js'></script>", "page.html: asks http://127.0.0.1:9/x.js"),
        ("<p style='color:#999;background:#fff'>pale</p>", "page.html: dark: axe, color-contrast: "),
    ],
)
@pytest.mark.long
def test_a_fault_of_a_page(tmp_path: Path, body: str, fault: str) -> None:
    found = judged(tmp_path, body)
    assert any(one.startswith(fault) for one in found), found


@pytest.mark.long
def test_a_share_of_the_pages(tmp_path: Path) -> None:
    (tmp_path / "other.html").write_text(GOOD.format(""), encoding="utf-8")
    pale = "<p style='color:#999;background:#fff'>pale</p>"
    assert judged(tmp_path, pale, Share(0, 2)) == []
    assert len(judged(tmp_path, pale, Share(1, 2))) == 2


def test_sources_are_alike(tmp_path: Path) -> None:
    for name in ("404", "index", "sources/a", "sources/b", "sources/deep/c", "_static/no"):
        file = tmp_path / f"{name}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    found = [page.relative_to(tmp_path).as_posix() for page in browser.find_pages(tmp_path)]
    assert found == ["index.html", "sources/b.html"]


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Fault, match=r"there are no pages in .*run `make html`"):
        browser.judge(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        Fault, match="make browser: Chromium is needed, found none on PATH; install it: apt-get install chromium"
    ):
        chromium.find_browser("make browser")
