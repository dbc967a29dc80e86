"""The copy button of a listing copies the hidden text next to it."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest
from weaver.pages.copied import title
from weaver.sources.standalone import Standalone

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository


def texts(repository: Repository) -> list[tuple[str, str]]:
    """The title and text of each copy on the index page."""
    result = repository.build()
    assert result.status == 0, result.warnings
    page = (result.output / "index.html").read_text(encoding="utf-8")
    found = re.findall(r'<pre class="copied" hidden id="copied-\d+" title="(.*?)">(.*?)</pre>', page, re.DOTALL)
    return [(html.unescape(one), html.unescape(other)) for one, other in found]


def test_a_region_with_its_includes(repository: Repository) -> None:
    assert texts(repository) == [
        (
            "Copy with 1 include",
            """\
// csrc/hooks.cpp of toy, BSD-3-Clause
#include "hooks.h"

/// Starts the device.
void Hooks::init() const {
  start();
}
""",
        )
    ]


def test_a_changed_source_changes_the_copy(repository: Repository) -> None:
    texts(repository)
    source = (repository.root / "csrc/hooks.cpp").read_text(encoding="utf-8")
    repository.write("csrc/hooks.cpp", source.replace('"hooks.h"', '<a&b>\n#include "hooks.h"'))
    (given,) = texts(repository)
    assert given[0] == "Copy with 2 includes"
    assert "#include <a&b>\n" in given[1]


def test_what_is_copied_as_shown_has_no_other_text(repository: Repository) -> None:
    repository.page("# Guide\n\n```{literalinclude} /csrc/plain.h\n```\n")
    repository.write("csrc/plain.h", "int plain();\n")
    (repository.root / "csrc/hooks.cpp").unlink()
    assert texts(repository) == []


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (Standalone(""), "Copy"),
        (Standalone("", imports=1), "Copy with 1 import"),
        (Standalone("", includes=3, names=("Pool",)), "Copy with 3 includes and Pool"),
        (Standalone("", includes=1, names=tuple("abcde")), "Copy with 1 include, a, b, c and 2 more of the same file"),
    ],
)
def test_the_title_says_what_comes_along(found: Standalone, says: str) -> None:
    assert title(found) == says
