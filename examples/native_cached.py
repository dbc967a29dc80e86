"""One operator on a native kernel. What it compiles is kept for the next process."""

from __future__ import annotations

import torch

print(torch.tensor([-1.0, 2.0], device="openreg").abs().tolist())
