"""The index of errors lists the errors that the pages raise, with their places and explanations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weaver.pages import error_index

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

RAISES = """# Copies

```{doctest}
>>> raise ValueError("no error: of the source")
Traceback (most recent call last):
ValueError: no error: of the source
```

## A wrong device

```{doctest}
>>> print("ours: RuntimeError: openreg: there is no device 7")
ours: RuntimeError: openreg: there is no device 7
>>> {}["x"]
Traceback (most recent call last):
KeyError: 'x'
```

**Cause:** there is one device. **Cure:** name the first.
"""
TABLE = """# Streams

```{doctest}
>>> raise RuntimeError("a stream of openreg:1 was given to openreg:0")
Traceback (most recent call last):
RuntimeError: a stream of openreg:1 was given to openreg:0
```

| What you see | Cause | Cure |
| --- | --- | --- |
| `a stream of ... was given to` | two devices | make the stream current |
| `given` | too short to be meant | nothing |
"""


def text_of(repository: Repository) -> str:
    result = repository.build()
    assert result.status == 0, result.warnings
    page = (result.output / "index.html").read_text()
    found = page[page.index('id="error-') :] if 'id="error-' in page else ""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found))


def test_each_error_with_its_place_its_cause_and_its_cure(repository: Repository) -> None:
    repository.add("```{error-index}\n```\n\n```{toctree}\ncopies\nstreams\n```\n")
    repository.page(RAISES, "copies.md")
    repository.page(TABLE, "streams.md")
    text = text_of(repository)
    assert re.findall(r"\w+Error\b(?= +¶)", text) == ["KeyError", "RuntimeError", "ValueError"]
    assert "'x' Copies, A wrong device Cause: there is one device. Cure: name the first." in text
    assert (
        "a stream of openreg:1 was given to openreg:0 Streams Cause: two devices Cure: make the stream current" in text
    )
    assert text.index("a stream of") < text.index("openreg: there is no device 7"), "openreg: is not sorted by"
    assert text.count("no error: of the source") == 1


def test_an_error_that_is_new_on_a_page_comes_into_the_index(repository: Repository) -> None:
    repository.add("```{error-index}\n```\n\n```{toctree}\ncopies\n```\n")
    repository.page(RAISES, "copies.md")
    assert "TypeError" not in text_of(repository)
    repository.page(RAISES.replace("ValueError", "TypeError"), "copies.md")
    assert "TypeError" in text_of(repository)
    (repository.root / "docs/source/copies.md").unlink()
    repository.page((repository.root / "docs/source/index.md").read_text().replace("copies\n", ""))
    assert "TypeError" not in text_of(repository)


def test_a_message_within_a_line_and_none_in_a_source() -> None:
    found = error_index.messages(
        ">>> f('ValueError: no')\n... # TypeError: no\n    own: torch.OutOfMemoryError: yes \n"
    )
    assert list(found) == [("OutOfMemoryError", "yes")]


def test_messages_that_differ_in_bytes_are_one() -> None:
    place = error_index.Place("memory", "out", "Out of memory")
    errors = {("E", f"tried to allocate {size} bytes on openreg:0"): place for size in (4096, 1048576)}
    assert error_index.merged([error_index.Seen(errors)]) == {
        "E": {"tried to allocate ... bytes on openreg:0": [place]}
    }
