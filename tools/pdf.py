"""``make pdf``: writes the whole guide into one file, with bookmarks, and links within the file.

The pages of ``make html`` become one document, in the order of the contents, and Chromium prints it with the print
rules of guide.css. So anchors get the name of their page as a prefix to make them unique, and links are changed to
match. Links to what is only on the web, a whole source or a download, become plain text.
"""

from __future__ import annotations

import argparse
import os
import posixpath
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from chromium import find_browser
from environment import Fault, say

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag
    from pikepdf import OutlineItem

PDF = Path("docs", "build", "pdf", "executable-guide.pdf")
# Sphinx's index of the terms that pages mark.
INDEX = "genindex.html"
ARTICLE = "furo-main-content"
# In seconds. Chromium takes one or two minutes on two slow cores.
LIMIT = 1200
# Elements that are useless on paper.
_LEFT_OUT = ".copied, .headerlink, .bundle, .sd-tab-set > input, script"
# Attributes that name an element of the same page.
_NAMING = ("id", "for", "aria-labelledby", "aria-controls", "aria-describedby")


@dataclass
class Chapter:
    """A page in the contents: its path below the folder of the pages, its title, and its article."""

    path: str
    title: str
    article: Tag | None = None
    places: set[str] = field(default_factory=set)

    @property
    def place(self) -> str:
        """The anchor of its beginning."""
        return self.path.removesuffix(".html").replace("/", "-")


@dataclass
class Part:
    """Some chapters under a caption of the contents."""

    caption: str
    chapters: list[Chapter] = field(default_factory=list)


def _parse(file: Path) -> BeautifulSoup:
    from bs4 import BeautifulSoup

    return BeautifulSoup(file.read_text(encoding="utf-8"), "html.parser")


def contents(html: Path) -> list[Part]:
    """The parts of the guide; the first is the start page alone. Throws: ``Fault``, if the pages have not been made."""
    first = html / "index.html"
    if not first.is_file():
        raise Fault(f"make pdf: there are no pages in {html}; run `make html`")
    page = _parse(first)
    parts = [Part("", [Chapter("index.html", _title(page))])]
    for element in page.select(".sidebar-tree .caption-text, .sidebar-tree .toctree-l1 > a"):
        path = str(element.get("href", ""))
        if element.name != "a":
            parts.append(Part(element.get_text()))
        elif path != INDEX:
            parts[-1].chapters.append(Chapter(path, element.get_text()))
    if not any(part.chapters for part in parts[1:]):
        raise Fault(f"make pdf: {first} names no chapters")
    return parts


def _title(page: BeautifulSoup) -> str:
    heading = page.find("h1")
    return heading.get_text().removesuffix("#") if heading else ""


def join(html: Path) -> str:
    """The pages below a folder as one document. Throws: ``Fault``, if a link has no target."""
    parts = contents(html)
    chapters = {chapter.path: chapter for part in parts for chapter in part.chapters}
    for chapter in chapters.values():
        _read(html, chapter)
    lost = [fault for chapter in chapters.values() for fault in _link(html, chapter, chapters)]
    if lost:
        raise Fault("make pdf: links that lead to no place of the guide:\n" + "\n".join(lost))
    head = _parse(html / "index.html").head
    assert head is not None
    for element in head.select("script, link:not([rel=stylesheet])"):
        element.decompose()
    for style in head.select("link[rel=stylesheet]"):
        style["href"] = (html / urlsplit(str(style["href"])).path).resolve().as_uri()
    first, *others = [str(chapter.article) for chapter in chapters.values()]
    body = "\n".join([first, _list(parts[1:]), *others])
    return (
        f'<!DOCTYPE html>\n<html lang="en">{head}<body class="book"><main id="{ARTICLE}">{body}</main></body></html>\n'
    )


def _read(html: Path, chapter: Chapter) -> None:
    article = _parse(html / chapter.path).find(id=ARTICLE)
    assert article is not None
    for element in article.select(_LEFT_OUT):
        element.decompose()
    # References within a picture stay within it.
    pictured = {id(element) for picture in article.find_all("svg") for element in (picture, *picture.find_all(True))}
    for element in article.find_all(True):
        if id(element) in pictured:
            continue
        if "id" in element.attrs:
            chapter.places.add(str(element["id"]))
        for name in _NAMING:
            if name in element.attrs:
                element[name] = f"{chapter.place}--{element[name]}"
    del article["role"]
    article["id"] = chapter.place
    chapter.article = article


def _link(html: Path, chapter: Chapter, chapters: dict[str, Chapter]) -> Iterator[str]:
    """Points the links of a chapter into the document, and its images to their files; yields links without a target."""
    assert chapter.article is not None
    folder = posixpath.dirname(chapter.path)
    for image in chapter.article.select("img[src]"):
        image["src"] = (html / folder / str(image["src"])).resolve().as_uri()
    for link in chapter.article.select("a[href]"):
        to = urlsplit(str(link["href"]))
        if to.scheme or link.find_parent("svg"):
            continue
        path = posixpath.normpath(posixpath.join(folder, to.path)) if to.path else chapter.path
        if path not in chapters:
            link.name = "span"
            del link["href"]
        elif not to.fragment:
            link["href"] = f"#{chapters[path].place}"
        elif to.fragment in chapters[path].places:
            link["href"] = f"#{chapters[path].place}--{to.fragment}"
        else:
            yield f"{chapter.path}: {link['href']}"


def _list(parts: list[Part]) -> str:
    """The table of contents, on separate pages."""
    lists = "".join(
        f"<h2>{escape(part.caption)}</h2><ul>"
        + "".join(f'<li><a href="#{one.place}">{escape(one.title)}</a></li>' for one in part.chapters)
        + "</ul>"
        for part in parts
        if part.chapters
    )
    return f'<article class="book-contents"><h1>Contents</h1>{lists}</article>'


def print_book(document: Path, pdf: Path) -> None:
    """Has Chromium print a document. Throws: ``Fault``, if that fails."""
    # Chromium has no sandbox as root, for example in containers. The pages are our own.
    command = [find_browser("make pdf"), "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    command += ["--generate-pdf-document-outline", f"--print-to-pdf={pdf}"]
    with tempfile.TemporaryDirectory() as profile:
        command += [f"--user-data-dir={profile}", document.resolve().as_uri()]
        try:
            ran = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            raise Fault(f"make pdf: Chromium has not written {pdf} within {LIMIT} s") from None
    if ran.returncode != 0 or not pdf.is_file():
        raise Fault(f"make pdf: Chromium has not written {pdf}:\n{ran.stderr.strip()}")


def make(html: Path, pdf: Path) -> str:
    """Writes the file; returns a summary of it. Throws: ``Fault``."""
    import pikepdf

    pdf.parent.mkdir(parents=True, exist_ok=True)
    pdf.unlink(missing_ok=True)
    # In the folder of the file, because some installations of Chromium read no file in /tmp.
    with tempfile.TemporaryDirectory(dir=pdf.parent) as folder:
        document = Path(folder, f"{pdf.stem}.html")
        document.write_text(join(html), encoding="utf-8")
        say(f"Chromium prints {pdf}, from {os.path.getsize(document) / 1e6:.0f} MB of HTML")
        print_book(document, pdf)
    with pikepdf.open(pdf, allow_overwriting_input=True) as book:
        with book.open_outline() as outline:
            bookmarks = _count(outline.root)
        if not bookmarks:
            raise Fault(f"make pdf: {pdf} has no bookmarks; Chromium 122 or newer makes them")
        pages = len(book.pages)
        # Chromium writes each of a million small objects separately, which makes the file three times as large.
        book.save(pdf, object_stream_mode=pikepdf.ObjectStreamMode.generate)
    return f"{pdf}, {pages} pages with {bookmarks} bookmarks, {pdf.stat().st_size / 1e6:.0f} MB"


def _count(items: Iterable[OutlineItem]) -> int:
    return sum(1 + _count(item.children) for item in items)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line. Throws: ``Fault``, if the output is a folder."""
    parser = argparse.ArgumentParser(prog="make pdf")
    parser.add_argument("--output", type=Path, default=PDF, metavar="FILE", help="the file (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.output.is_dir():
        file = options.output / PDF.name
        raise Fault(f"make pdf: --output expects a file, got the folder {options.output}; name a file in it: {file}")
    return options
