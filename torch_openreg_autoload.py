"""The entry point through which `import torch` loads this backend (group `torch.backends`).

It is a module of its own, outside the package: PyTorch turns any exception of an entry point into a failed
`import torch`, and a package whose own `__init__` fails could not catch that. Called once per process, by
`torch/__init__.py`, on the importing thread, unless TORCH_DEVICE_BACKEND_AUTOLOAD=0.
"""

from __future__ import annotations

import sys
import warnings


# LITERALINCLUDE START: autoload-entry-point
def autoload() -> None:
    """Imports torch_openreg; where that fails, warns with the reason and leaves torch usable.

    When `import torch_openreg` came first, the package is half imported by now, the import below returns that half
    at once, and the package completes itself after `import torch` returns to it.
    """
    try:
        import torch_openreg  # noqa: F401 - imported for its registrations
    except Exception as error:
        message = (
            f"The openreg backend was not loaded: {type(error).__name__}: {error}. "
            "Mend or uninstall torch_openreg, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 to import torch without it."
        )
        try:
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        except RuntimeWarning:  # under `python -W error`, which must not break `import torch` either
            print(message, file=sys.stderr)


# LITERALINCLUDE END: autoload-entry-point
