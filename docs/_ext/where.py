"""The line of a page at which something stands.

MyST counts the line of a directive differently at top level, in a tab and in a quotation, so a number that is given
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
    """Return the line (from 1) where ``wanted`` stands in ``source``, nearest to ``hint``; ``hint`` when it does not.

    Indentation and the signs of a quotation in front of a line are not compared.
    """
    needle = [line.strip(_PREFIX) for line in wanted]
    if not any(needle):
        return hint
    hay = [line.strip(_PREFIX) for line in source]
    found = [index + 1 for index in range(len(hay) - len(needle) + 1) if hay[index : index + len(needle)] == needle]
    return min(found, key=lambda line: abs(line - hint), default=hint)


def line_of(env: BuildEnvironment, docname: str, wanted: Sequence[str], hint: int | None) -> int:
    """Return the line of a page where ``wanted`` stands, nearest to ``hint``."""
    source = Path(env.doc2path(docname)).read_text(encoding="utf-8").splitlines()
    return find(source, wanted, hint or 1)
