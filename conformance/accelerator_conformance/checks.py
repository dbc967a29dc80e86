"""What a check says about itself, and how it ends when the backend leaves out what it asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest

LEVELS = ("minimal", "usable", "complete")
NOT_OFFERED = "not offered: "

# Each of these marks a check; at the head of a file, by `pytestmark`, all checks that say nothing else.
chapter = pytest.mark.chapter
level = pytest.mark.level


def not_offered(reason: str) -> NoReturn:
    """Ends a check whose subject the backend has not, and may leave out."""
    pytest.skip(NOT_OFFERED + reason)


@contextmanager
def optional() -> Iterator[None]:
    """A refusal inside, by NotImplementedError or a missing attribute, means that the backend leaves this out."""
    try:
        yield
    except (AttributeError, NotImplementedError) as error:
        not_offered(str(error).partition("\n")[0])


def current_is(index: int) -> None:
    """Asserts that a device is the current one of this thread."""
    import torch

    seen = torch.accelerator.current_device_index()
    assert seen == index, (
        f"the current device is {seen} and should be {index}: is an index ignored, or a guard not left?"
    )
