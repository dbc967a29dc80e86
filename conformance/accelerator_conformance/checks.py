"""How a check describes itself, and how it ends if the backend does not offer its subject."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    import torch

LEVELS = ("minimal", "usable", "complete")
NOT_OFFERED = "not offered: "
# What C++ calls the dtypes that a device may lack.
CPP_NAMES = {
    "float64": "Double",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "int8": "Char",
    "int16": "Short",
}

# Marks of a check or, as `pytestmark` at the head of a file, of all checks without a mark of their own.
chapter = pytest.mark.chapter
level = pytest.mark.level


def not_offered(reason: str) -> NoReturn:
    """Ends a check whose subject is optional, and not offered by the backend."""
    pytest.skip(NOT_OFFERED + reason)


@contextmanager
def optional() -> Iterator[None]:
    """Treats NotImplementedError and AttributeError inside as a feature that the backend does not offer."""
    try:
        yield
    except (AttributeError, NotImplementedError) as error:
        not_offered(str(error).partition("\n")[0])


@contextmanager
def optional_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Treats an error inside that names the dtype as a dtype that the backend does not offer."""
    name = str(dtype).removeprefix("torch.")
    try:
        yield
    except (NotImplementedError, RuntimeError, TypeError) as error:
        if not re.search(rf"\b(?:{name}|{CPP_NAMES[name]})\b", str(error)):
            raise
        not_offered(str(error).partition("\n")[0])


def current_is(index: int) -> None:
    """Asserts that a device is current in this thread."""
    import torch

    seen = torch.accelerator.current_device_index()
    assert seen == index, (
        f"the current device is {seen} and should be {index}: is an index ignored, or a guard not left?"
    )
