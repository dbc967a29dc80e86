"""The entry point through which `import torch` registers the device, if the package is installed.

PyTorch turns any exception of an entry point into a failed `import torch`. This is a module of its own, so that it can
also catch what the package raises while it is imported.
"""

from __future__ import annotations

import importlib
import sys
import warnings


def autoload() -> None:
    """Registers the device; where that fails, warns with the reason and leaves torch usable."""
    try:
        importlib.import_module("torch_remote").register()
    except Exception as error:
        message = (
            f"The remote backend was not loaded: {type(error).__name__}: {error}. Mend or uninstall torch_remote, or "
            "set TORCH_DEVICE_BACKEND_AUTOLOAD=0 and call torch_remote.register() to use it in place of another one."
        )
        try:
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        except RuntimeWarning:  # under `python -W error`, which must not break `import torch` either
            print(message, file=sys.stderr)
