"""Rejects a process in which the backend cannot work, before any shared object is loaded.

That is one with a PyTorch that this installation was not built for: the guard, hooks and allocator have no stable
binary interface, so with another minor version, the loader would at best fail on an undefined symbol, and at worst the
wrong virtual function would be called. And it is one in which another backend has PyTorch's only place for one:
registering hooks a second time ends the process.
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
        raise ImportError(  # names the folder of the Makefile, which has the package in it
            f"{__package__} is not built in {Path(__file__).parents[1]}: run `make build` there, "
            "or leave that folder to import an installed one"
        ) from error
    series = ".".join(TORCH_VERSION.split(".")[:2])
    if not torch.__version__.startswith(series + "."):
        raise ImportError(
            f"torch_openreg was built for PyTorch {TORCH_VERSION} and works with {series} only, "
            f"found PyTorch {torch.__version__}: install torch=={series}.*, or a torch_openreg built for this one"
        )


# LITERALINCLUDE END: version-check


# LITERALINCLUDE START: place-check
def require_place() -> None:
    """Looks whether another backend was loaded into this process.

    Raises:
        ImportError: if so; the message names it.
    """
    present = torch._C._get_privateuse1_backend_name()
    if present not in ("privateuseone", "openreg"):
        raise ImportError(
            f"PyTorch has one place for a backend from outside, and the backend {present!r} was loaded into this "
            "process before openreg: use one of them, in an environment of its own"
        )


# LITERALINCLUDE END: place-check
