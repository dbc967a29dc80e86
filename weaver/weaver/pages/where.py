"""Finds the line of a page at which some text occurs.

MyST counts the line of a directive differently at top level, in a tab and in a quotation, so a number that is reported
to an author is looked up in the page itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sphinx.environment import BuildEnvironment

_PREFIX = " \t>"


def find(source: Sequence[str], wanted: Sequence[str], hint: int) -> int:
    """Return the line (from 1) of ``wanted`` in ``source`` that is nearest to ``hint``; ``hint`` if there is none.

    Indentation and quotation marks in front of a line are not compared.
    """
    needle = [line.strip(_PREFIX) for line in wanted]
    if not any(needle):
        return hint
    hay = [line.strip(_PREFIX) for line in source]
    found = [index + 1 for index in range(len(hay) - len(needle) + 1) if hay[index : index + len(needle)] == needle]
    return _nearest(found, hint)


def _nearest(found: list[int], hint: int) -> int:
    # MyST tends to count one line too few rather than one too many, so a tie goes to the later line.
    return min(found, key=lambda line: abs(line - hint - 0.5), default=hint)


def line_of(env: BuildEnvironment, docname: str, wanted: Sequence[str], hint: int | None) -> int:
    """Return the line of a page with ``wanted`` that is nearest to ``hint``."""
    return find(_lines(env, docname), wanted, hint or 1)


def line_containing(env: BuildEnvironment, docname: str, text: str, hint: int) -> int:
    """Return the line of a page that contains ``text`` and is nearest to ``hint``; ``hint`` when none does."""
    found = [number for number, line in enumerate(_lines(env, docname), start=1) if text in line]
    return _nearest(found, hint)


def _lines(env: BuildEnvironment, docname: str) -> list[str]:
    return Path(env.doc2path(docname)).read_text(encoding="utf-8").splitlines()
