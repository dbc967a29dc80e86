"""Rejects a PyTorch that this installation was not built for, before any shared object is loaded.

The guard, hooks and allocator have no stable binary interface: with another minor version, the loader would at best
fail on an undefined symbol, and at worst the wrong virtual function would be called.
"""

from __future__ import annotations

from pathlib import Path

import torch


# LITERALINCLUDE START: version-check
def require_torch() -> None:
    """Compares the running PyTorch with the one that the package was built for.

    Raises:
        ImportError: if the package is not built, or if PyTorch has another minor version; the message names both.
    """
    try:
        from torch_openreg._build_info import TORCH_VERSION
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{__package__} is not built in {Path(__file__).parent}: run `make build` there, "
            "or leave that folder to import an installed one"
        ) from error
    series = ".".join(TORCH_VERSION.split(".")[:2])
    if not torch.__version__.startswith(series + "."):
        raise ImportError(
            f"torch_openreg was built for PyTorch {TORCH_VERSION} and works with {series} only, "
            f"found PyTorch {torch.__version__}: install torch=={series}.*, or a torch_openreg built for this one"
        )


# LITERALINCLUDE END: version-check
