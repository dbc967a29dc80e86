"""Refuses a PyTorch that this installation was not built for, before any shared object is loaded.

Guard, hooks and allocator have no stable binary interface: with another minor version the loader would stop at an
undefined symbol at best, and call the wrong virtual function at worst.
"""

from __future__ import annotations

from pathlib import Path

import torch


# LITERALINCLUDE START: version-check
def require_torch() -> None:
    """Compares the PyTorch that is running with the one of the build.

    Raises:
        ImportError: the package is not built, or PyTorch is of another minor version; names both.
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
