"""A backend that cannot fill a tensor, and which writes a line to the file STARTS for each process that imports it."""

import os
from pathlib import Path

import torch

from tests.conformance.broken.kernels import kernel

with Path(os.environ["STARTS"]).open("a", encoding="utf-8") as file:
    file.write(f"{os.getpid()}\n")


@kernel("fill_.Scalar")
def fill(*_arguments: object) -> torch.Tensor:
    raise RuntimeError("nothing can be filled")
