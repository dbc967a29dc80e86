"""Known and accepted differences between the device and the CPU."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A difference, by patterns for its kind, its line and its detail."""

    kind: str
    line: str
    detail: str
    reason: str


_OVERLAP = "single memory location"
KNOWN = (
    Known(
        r"stride",
        r"\.expand\(",
        "",
        "the CPU converts a dtype before it looks at the order, and what it has converted is not broadcast any more",
    ),
    Known(
        r"raises",
        r"\bas_strided_?\(",
        "out of bounds for storage",
        "a loss of one number keeps on the CPU the room that all differences took, and a view may reach into it",
    ),
    Known(r"raises", r"\bindex_put_\(", _OVERLAP, "the CPU takes a mask for another operator, which lets it overlap"),
    Known(
        r"raises|accepts",
        r"\baddmv",
        r"can't be cast|not implemented for",
        "the CPU looks at no dtype where a matrix has no elements",
    ),
    Known(r"shape", r"pixel_(un)?shuffle", "", "the CPU gives what has no elements the sizes of the input"),
)


def is_known(kind: str, line: str, detail: str) -> bool:
    """Whether a difference is one of these."""
    return any(
        re.search(known.kind, kind) and re.search(known.line, line) and re.search(known.detail, detail)
        for known in KNOWN
    )
