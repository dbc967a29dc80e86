from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

# Twelve words of prose, including the heading; words of tables and code do not count.
PAGE = """\
---
orphan: true
---

# A guide

- Three words *here*

Some more `words` follow.

> Quoted words count

| Not | counted |
| --- | --- |
| at | all |

```{doctest}
>>> "one two three".split()
['one', 'two', 'three']
```
"""


@pytest.mark.parametrize("longest", [{}, {"words": 12, "kilobytes": 50}, {"words": 0, "kilobytes": 0}])
def test_a_page_within_the_limits_passes(repository: Repository, longest: dict[str, int]) -> None:
    repository.configure(longest=longest)
    repository.page(PAGE, "long.md")
    result = repository.build()
    assert result.status == 0, result.warnings


@pytest.mark.parametrize(
    ("longest", "message"),
    [
        ({"words": 11}, "12 words of prose are more than the 11 that `[longest]` of weaver.toml allows a page"),
        ({"kilobytes": 1}, " KB are more than the 1 KB that `[longest]` of weaver.toml allows a page"),
    ],
)
def test_a_page_beyond_a_limit_is_a_fault(repository: Repository, longest: dict[str, int], message: str) -> None:
    repository.configure(longest=longest)
    repository.page(PAGE, "long.md")
    repository.build().assert_fault("long.md:1", message)
    repository.build().assert_fault("long.md:1", message)  # an incremental build, too
    repository.configure()
    assert repository.build().status == 0
