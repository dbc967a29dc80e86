"""Runs lines that may raise."""

from __future__ import annotations

from typing import Any


def attempt(code: str, names: dict[str, Any]) -> Exception | None:
    """Runs some lines; returns what they raise, if anything."""
    try:
        exec(code, names)
    except Exception as error:
        # The frames of the traceback would keep tensors alive.
        return error.with_traceback(None)
    return None
