"""Where the device differs from the CPU, and may."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """A difference: what a line says, and what is said of it, as patterns."""

    line: str
    detail: str
    reason: str


KNOWN = (
    Known(
        r"\b(smooth_l1|l1|mse|huber)_loss\(", r"stride", "the order of the first argument, also where it is broadcast"
    ),
    Known(r"\bput_\(", r"single memory location", "a number may lie in what is written: it is read before"),
    Known(r"\baddmv", r"can't be cast|not implemented for", "the CPU looks at no dtype where a matrix has no elements"),
    Known(r"pixel_(un)?shuffle", r"^\w+: shape", "the CPU gives what has no elements the sizes of the input"),
)


def is_known(line: str, detail: str) -> bool:
    """Whether a difference is one of these."""
    return any(re.search(known.line, line) and re.search(known.detail, detail) for known in KNOWN)
