"""What stops a command, and its lines of progress."""

from __future__ import annotations


class Fault(Exception):
    """What stops a command; its text is what the user sees."""


def say(line: str) -> None:
    """Prints one line of progress."""
    print(f"-- {line}", flush=True)
