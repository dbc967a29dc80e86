"""The Markdown twins of pages, and ``llms.txt``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.weaver.conftest import Repository

INDEX = """# Guide

What the [guide](accelerator/one.md) is *about*.

```{toctree}
:caption: Start

accelerator/one
bare
genindex
```
"""

ONE = """# One & all

The first page, see {doc}`/index`.

## With a listing

```{literalinclude} /csrc/hooks.cpp
:start-after: "LITERALINCLUDE START: hooks-init"
:end-before: "LITERALINCLUDE END: hooks-init"
:caption: Where it starts
```

```{diagram} ../_static/drawn.svg
:alt: Two boxes & an arrow.

The drawing.
```

| Name | Meaning |
| --- | --- |
| `x` | a number |

(a-label)=
## Labelled

See {ref}`the label <a-label>`, [here](#with-a-listing), [there](../index.md) and [elsewhere](https://example.org/page.html).

```{whole-sources}
csrc/hooks.cpp
```
"""
SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="M0 0H9"/></svg>"""


@pytest.fixture
def built(repository: Repository) -> Path:
    """The HTML folder of a site of a few pages."""
    repository.write("docs/source/_static/drawn.svg", SVG)
    repository.page(INDEX)
    repository.page(ONE, "accelerator/one.md")
    repository.page("# Without words\n", "bare.md")
    result = repository.build()
    assert result.status == 0, result.warnings
    return result.output


def test_a_twin_has_what_the_page_shows(built: Path) -> None:
    twin = (built / "accelerator/one.md").read_text(encoding="utf-8")
    assert twin.startswith("# One & all\n\nThe first page, see [Guide](../index.md).\n\n## With a listing\n")
    assert (
        "Where it starts [csrc/hooks.cpp:5-8](../sources/csrc/hooks.cpp.html#L5)\n```cpp\n/// Starts the device.\n"
        in twin
    )
    assert "```{" not in twin
    assert "[Picture: Two boxes & an arrow.]" in twin
    assert "<svg" not in twin
    assert "The drawing." in twin
    assert "| `x`    | a number  |" in twin
    assert "[elsewhere](https://example.org/page.html)" in twin
    assert "[here](#with-a-listing)" in twin
    assert "[the label](#a-label)" in twin
    assert '<a id="a-label"></a>' in twin
    assert "[there](../index.md)" in twin
    # A source file is a link, because it has a page of its own.
    assert twin.count("void Hooks::init() const {") == 1
    assert "* [csrc/hooks.cpp](../sources/csrc/hooks.cpp.html) 7 lines The hooks.\n" in twin


def test_the_page_names_its_twin(built: Path) -> None:
    html = (built / "accelerator/one.html").read_text(encoding="utf-8")
    assert '<link rel="alternate" type="text/markdown" href="one.md">' in html
    assert "alternate" not in (built / "genindex.html").read_text(encoding="utf-8")


def test_the_list_has_each_page_under_its_caption(built: Path) -> None:
    assert (built / "llms.txt").read_text(encoding="utf-8") == (
        "# The executable guide to PyTorch accelerators\n"
        "\n"
        "> What the guide is *about*.\n"
        "\n"
        "## Start\n"
        "\n"
        "- [One & all](accelerator/one.md): The first page, see Guide.\n"
        "- [Without words](bare.md)\n"
    )


def test_the_list_is_whole_when_one_page_is_written_anew(built: Path, repository: Repository) -> None:
    before = (built / "llms.txt").read_text(encoding="utf-8")
    repository.page(INDEX.replace("*about*", "about"))
    assert repository.build().status == 0
    assert (built / "llms.txt").read_text(encoding="utf-8") == before.replace("*about*", "about")


def test_other_builders_write_none(repository: Repository) -> None:
    result = repository.build("dummy")
    assert result.status == 0, result.warnings
    assert not list(result.output.rglob("*.md"))
    assert not list(result.output.rglob("llms.txt"))
