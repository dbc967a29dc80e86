"""The guide as an EPUB: pages in XHTML, with pictures and tabs that an e-book reader can show."""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tests.weaver.conftest import CONF

if TYPE_CHECKING:
    from pathlib import Path

    from tests.weaver.conftest import Repository

SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">
<path d="M0 0H9" stroke="var(--guide-rule, #c2410c)" fill="currentColor"/></svg>"""
SETTINGS = """
author = project_copyright = "The authors"
version = "1.0"
epub_description = "What it is"
epub_identifier = epub_uid = "guide"
epub_basename = "guide"
epub_css_files = ["guide-epub.css"]
epub_tocscope = "includehidden"
epub_use_index = False
html_static_path = ["_static"]
extensions += ["docs._ext.conformance_poster", "docs._ext.markdown_twins", "docs._ext.epub"]
"""
PAGE = """# One

```{diagram} ../_static/drawn.svg
:alt: Two boxes & an arrow.
```

::::{tab-set}
:::{tab-item} C++
First
:::
:::{tab-item} Python
Second
:::
::::

```{conformance-poster}
```

{source}`csrc/hooks.cpp` is the file.

```{whole-sources}
csrc/hooks.cpp
```
"""


@pytest.fixture
def book(repository: Repository) -> zipfile.ZipFile:
    """A book of two pages."""
    repository.write("docs/source/conf.py", CONF + SETTINGS)
    repository.write("docs/source/_static/drawn.svg", SVG)
    repository.write("docs/source/_static/guide-epub.css", "pre { white-space: pre-wrap; }\n")
    repository.add("```{toctree}\n:hidden:\n\naccelerator/one\n```\n")
    repository.page(PAGE, "accelerator/one.md")
    result = repository.build("epub")
    assert result.status == 0, result.warnings
    return zipfile.ZipFile(_only(result.output))


def _only(folder: Path) -> Path:
    (file,) = folder.glob("*.epub")
    return file


def test_pages_are_xhtml_and_the_contents_name_them(book: zipfile.ZipFile) -> None:
    for name in book.namelist():
        if name.endswith((".xhtml", ".opf", ".ncx", ".svg")):
            ET.fromstring(book.read(name))
    assert 'href="accelerator/one.xhtml"' in book.read("nav.xhtml").decode()


def test_a_picture_is_a_file_in_colours_of_its_own(book: zipfile.ZipFile) -> None:
    page = book.read("accelerator/one.xhtml").decode()
    found = re.search(r'<img src="\.\./(_images/\w+\.svg)" alt="Two boxes &amp; an arrow\."', page)
    assert found, page
    assert "<svg" not in page
    assert 'stroke="#c2410c"' in book.read(found[1]).decode()


def test_tabs_stand_one_below_the_other(book: zipfile.ZipFile) -> None:
    page = book.read("accelerator/one.xhtml").decode()
    assert "<input" not in page
    assert re.search(r'class="rubric">C\+\+</p>.*First.*class="rubric">Python</p>.*Second', page, re.DOTALL)


def test_what_only_a_site_has_is_left_out(book: zipfile.ZipFile) -> None:
    page = book.read("accelerator/one.xhtml").decode()
    assert "csrc/hooks.cpp" in page
    assert not re.findall(r'href="[^"]*(?:sources/|bundles/|\.md)', page)
    assert "python -m accelerator_conformance --poster sheet.html" in re.sub(r"<[^>]*>", "", page)
    left = [name for name in book.namelist() if re.search(r"sources/|\.zip|\.md|_static/drawn|poster", name)]
    assert not left
    assert "guide-epub.css" in page
    assert "sphinx-design" not in page
