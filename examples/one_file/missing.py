"""What the device cannot do yet: runs statements that fail, or do not do what they say, and prints how each ends."""

from __future__ import annotations

import io
import textwrap
import warnings

import tiny  # makes the device
import torch
from torch import nn


def tied() -> bool:
    """Whether two modules still share their weight once they are on the device."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    model.to("tiny")
    return model[1].weight is model[0].weight


def loaded() -> torch.Tensor:
    """A tensor of the device, saved and loaded."""
    file = io.BytesIO()
    torch.save(ones(2), file)
    file.seek(0)
    tensor: torch.Tensor = torch.load(file)
    return tensor


def ones(*sizes: int) -> torch.Tensor:
    """A tensor on the device."""
    return torch.ones(sizes, device="tiny")


STATEMENTS = """
    tied()
    (ones(2, 2) @ torch.ones(2, 2)).device
    nn.functional.mse_loss(ones(2), ones(2)).item()
    torch.ones(2).pin_memory()
    torch.Stream("tiny")
    torch.Event("tiny").record()
    torch.Generator("tiny")
    torch.empty(1 << 60, device="tiny")
    torch.autocast("tiny")
    loaded()
    nn.functional.conv2d(ones(1, 1, 3, 3), ones(1, 1, 2, 2))
    nn.LSTM(2, 2).to("tiny")(ones(1, 1, 2))
    torch.eye(2, device="tiny").to_sparse()
"""


def outcome(statement: str) -> str:
    """What a statement gives: its value, after any first warning, or its error, each shortened to a line."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = repr(eval(statement))
        texts = [f"{warning.category.__name__}: {warning.message}" for warning in caught[:1]] + [value]
    except Exception as error:
        texts = [f"{type(error).__name__}: {error}"]
    return "".join(f"   {textwrap.shorten(text, 110, placeholder=' ...')}\n" for text in texts)


if __name__ == "__main__":
    for statement in map(str.strip, STATEMENTS.strip().splitlines()):
        print(statement, outcome(statement), sep="\n", end="")
