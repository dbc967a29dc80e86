"""safetensors: `load_file(path, device="openreg")`, and all that calls it, such as peft."""

from __future__ import annotations

from typing import Any

import torch

from torch_openreg.integrations import _library


# LITERALINCLUDE START: safetensors-register
def register() -> None:
    """Makes `safetensors.torch.load_file` and `load_model` accept the name of the device.

    Idempotent.

    Raises:
        ImportError: if safetensors is missing or too old.
        RuntimeError: if this release of safetensors opens files in another way.
    """
    _library.require("safetensors", "0.5")
    _OPEN.install()


def unregister() -> None:
    """Undoes `register()`. Idempotent."""
    _OPEN.remove()


# LITERALINCLUDE END: safetensors-register


# LITERALINCLUDE START: safetensors-open
def _open(original: Any) -> Any:
    """Passes an index for a name of the device.

    The library, which is written in Rust, has a list of names of devices; each vendor had to be added to it
    (https://github.com/safetensors/safetensors/pull/578). It gives an index to PyTorch as it is, and there an index
    means the current accelerator.
    """

    def safe_open(filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
        if isinstance(device, (str, torch.device)) and torch.device(device).type == "openreg":
            device = _library.device(torch.device(device).index or 0).index
        return original(filename, framework, device, **options)

    return safe_open


# The names that hold the class, not the class itself, which cannot be changed.
_OPEN = _library.Replacement("safetensors.torch", "safe_open", "filename framework device", _open)
# LITERALINCLUDE END: safetensors-open
