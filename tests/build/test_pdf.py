"""`make pdf` joins the pages: links still lead to their targets, and a dangling link is reported."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import chromium
import pdf
import pytest
from environment import Fault

INDEX = """<!doctype html><html><head><title>Guide</title><link rel="stylesheet" href="_static/a.css?v=1">
<script src="_static/a.js"></script><style>article { break-before: page }</style></head><body>
<div class="sidebar-tree"><p class="caption"><span
class="caption-text">Start</span></p><ul><li class="toctree-l1"><a href="sub/one.html">One &amp;
all</a></li><li class="toctree-l1"><a class="reference internal" href="genindex.html">Index</a></li></ul></div>
<article role="main" id="furo-main-content"><section id="guide"><h1>Guide<a class="headerlink" href="#guide">#</a></h1>
<p><a class="reference internal" href="sub/one.html#part">there</a></p></section></article></body></html>"""
ONE = """<!doctype html><html><body><article role="main" id="furo-main-content"><section id="part"><h1>One</h1>
<p><a href="#part">here</a> <a href="../index.html#guide">back</a> <a href="../index.html">home</a>
<a class="source" href="../sources/a.c.html#L3">a.c</a> <a href="https://example.org/x">far</a></p>
<svg><g id="part"><use href="#part"></use></g></svg><img src="../_images/a.png">
<div class="copied">all of a.c</div>{}</section></article></body></html>"""


@pytest.fixture
def html(tmp_path: Path) -> Path:
    """Pages as the theme writes them: the start page and a chapter."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(INDEX, encoding="utf-8")
    (tmp_path / "sub/one.html").write_text(ONE.format(""), encoding="utf-8")
    return tmp_path


def test_links_lead_to_places_of_the_document(html: Path) -> None:
    book = pdf.join(html)
    assert '<article id="index">' in book
    assert '<a class="reference internal" href="#sub-one--part">there</a>' in book
    for link in ('"#sub-one--part">here', '"#index--guide">back', '"#index">home', '"https://example.org/x">far'):
        assert f"<a href={link}</a>" in book
    assert '<section id="sub-one--part">' in book


def test_a_picture_keeps_its_names_and_files_are_found(html: Path) -> None:
    book = pdf.join(html)
    assert '<g id="part"><use href="#part"></use></g>' in book
    assert f'src="{(html / "_images/a.png").as_uri()}"' in book
    assert f'href="{(html / "_static/a.css").as_uri()}"' in book


def test_what_is_not_for_paper_is_left_out(html: Path) -> None:
    book = pdf.join(html)
    assert '<span class="source">a.c</span>' in book
    for absent in ("all of a.c", "headerlink", "script", "genindex", "sidebar-tree"):
        assert absent not in book


def test_the_contents_list_parts_and_chapters(html: Path) -> None:
    assert '<h2>Start</h2><ul><li><a href="#sub-one">One &amp;\nall</a></li></ul>' in pdf.join(html)


def test_a_link_that_leads_nowhere_is_named(html: Path) -> None:
    (html / "sub/one.html").write_text(ONE.format('<a href="../index.html#gone">x</a>'), encoding="utf-8")
    with pytest.raises(Fault, match=r"no place of the guide:\nsub/one.html: ../index.html#gone"):
        pdf.join(html)


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Fault, match=r"there are no pages in .*run `make html`"):
        pdf.join(tmp_path)
    (tmp_path / "index.html").write_text("<html><body></body></html>", encoding="utf-8")
    with pytest.raises(Fault, match=r"index\.html names no chapters"):
        pdf.join(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Fault, match="make pdf: Chromium is needed, found none on PATH; install it: apt-get install"):
        pdf.print_book(tmp_path / "index.html", tmp_path / "a.pdf")


def test_a_folder_is_no_output(tmp_path: Path) -> None:
    assert pdf.parse(["--output", str(tmp_path / "a.pdf")]).output == tmp_path / "a.pdf"
    wanted = f"make pdf: --output expects a file, got the folder {tmp_path}; name a file in it: {tmp_path}/executable-"
    with pytest.raises(Fault, match=re.escape(wanted)):
        pdf.parse(["--output", str(tmp_path)])


def test_nothing_beside_the_output_changes(html: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pikepdf

    def written(document: Path, file: Path) -> None:
        assert "sub-one--part" in document.read_text(encoding="utf-8")
        with pikepdf.new() as book:
            book.add_blank_page()
            with book.open_outline() as outline:
                outline.root.append(pikepdf.OutlineItem("Guide", 0))
            book.save(file)

    monkeypatch.setattr(pdf, "print_book", written)  # needs Chromium
    out = tmp_path / "out"
    out.mkdir()
    (out / "guide.html").write_text("mine", encoding="utf-8")
    assert ", 1 pages with 1 bookmarks, " in pdf.make(html, out / "guide.pdf")
    assert sorted(path.name for path in out.iterdir()) == ["guide.html", "guide.pdf"]
    assert (out / "guide.html").read_text(encoding="utf-8") == "mine"


@pytest.mark.skipif(not any(map(shutil.which, chromium.BROWSERS)), reason="Chromium is not installed")
def test_chromium_prints_pages_with_bookmarks(html: Path, tmp_path: Path) -> None:
    import pikepdf

    file = tmp_path / "out" / "guide.pdf"
    said = pdf.make(html, file)
    assert said.startswith(f"{file}, 3 pages with 4 bookmarks, ")
    with pikepdf.open(file) as book:
        links = [link for page in book.pages for link in page.get("/Annots", [])]
        # Five links within the guide, one of them in the contents, and one that leads out of it.
        assert sorted("/Dest" in link for link in links) == [False, *[True] * 5]
