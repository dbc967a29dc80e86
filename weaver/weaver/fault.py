"""The error that stops a command, and its progress output."""

from __future__ import annotations


class Fault(Exception):
    """An error that stops a command; its text is shown to the user."""


def say(line: str) -> None:
    """Prints one line of progress."""
    print(f"-- {line}", flush=True)
