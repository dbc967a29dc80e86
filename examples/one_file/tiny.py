"""A device under a name: compiles device.cpp, loads it into this process, and tells PyTorch its NAME."""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from types import ModuleType

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # A process has one such device: this one, not an installed one.

import torch
from torch.utils import cpp_extension

NAME = "tiny"

# LITERALINCLUDE START: one-file-python
present = torch._C._get_privateuse1_backend_name()
if present != "privateuseone":
    raise ImportError(f"{NAME}: the process has the device {present} already: import {NAME} before torch")

folder = Path(__file__).resolve().parent
build = folder / "build"
build.mkdir(exist_ok=True)
source = str(folder / "device.cpp")
cpp_extension.load(f"{NAME}_device", [source], build_directory=str(build), is_python_module=False)

module = ModuleType(f"torch.{NAME}")
module.is_available = lambda: True
module.device_count = lambda: 1
module.current_device = lambda: 0
# torch.manual_seed calls these two. Random numbers come from the CPU, whose generator it seeds as well.
module._is_in_bad_fork = lambda: False
module.manual_seed_all = lambda seed: None

torch.utils.rename_privateuse1_backend(NAME)
torch._register_device_module(NAME, module)
torch.utils.generate_methods_for_privateuse1_backend()
# LITERALINCLUDE END: one-file-python


# LITERALINCLUDE START: one-file-exit
@atexit.register
def _rest() -> None:
    """Runs an empty backward on autograd's thread, after which that is idle and holds no Python object."""
    leaf = torch.empty(0, device=NAME, requires_grad=True)
    torch.autograd.Variable._execution_engine.run_backward(
        (leaf.view(0),), (torch.empty_like(leaf),), False, False, (), allow_unreachable=True, accumulate_grad=True
    )


# LITERALINCLUDE END: one-file-exit
