"""An excerpt of a source on a page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Listing:
    """An excerpt of a source of the project: lines ``first`` to ``last`` of ``path``.

    ``region`` is the name of the marked region, empty for a whole file or a Python object.
    """

    path: str
    first: int
    last: int
    region: str = ""
