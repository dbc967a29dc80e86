"""One operator on a native kernel, which is compiled and kept, and with a dtype that no native kernel takes."""

from __future__ import annotations

import torch

print(torch.tensor([-1.0, 2.0], device="openreg").abs().tolist(), end=" ")
print(torch.tensor([3 + 4j], device="openreg").abs().tolist())
