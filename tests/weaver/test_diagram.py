from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" viewBox="0 0 9 9"><path d="M0 0" stroke="currentColor"/></svg>'


def test_picture_is_drawn_into_the_page(repository: Repository) -> None:
    repository.page(SVG, "layers.svg")
    repository.add("```{diagram} layers.svg\n:alt: A line.\n\nThe `layers`.\n```\n")
    result = repository.build()
    assert result.status == 0, result.warnings
    html = (result.output / "index.html").read_text()
    assert 'viewBox="0 0 9 9" role="img" aria-label="A line."' in html
    assert "The <code" in html.partition("<figcaption>")[2]


@pytest.mark.parametrize(
    ("svg", "alt", "message"),
    [
        (SVG, "", ":alt: is missing"),
        (SVG.replace("viewBox", "view"), ":alt: A line.\n", "with a viewBox"),
        (SVG.replace("<path ", '<image href="https://example.org/a.png" '), ":alt: A line.\n", "<image> may fetch"),
        (SVG.replace("</svg>", "<script>1</script></svg>"), ":alt: A line.\n", "<script> may fetch or run"),
        (SVG.replace("<path ", "<style>text {}</style><path "), ":alt: A line.\n", "<style> would apply to the whole"),
        ("text", ":alt: A line.\n", "syntax error"),
    ],
)
def test_fault_names_page_and_line(repository: Repository, svg: str, alt: str, message: str) -> None:
    repository.page(svg, "layers.svg")
    line = repository.add(f"```{{diagram}} layers.svg\n{alt}```\n")
    repository.build().assert_fault(f"index.md:{line}", message)


def test_missing_picture_fails(repository: Repository) -> None:
    line = repository.add("```{diagram} layers.svg\n:alt: A line.\n```\n")
    repository.build().assert_fault(f"index.md:{line}", "No such file")
