"""Loads the C++ library of the backend without its Python package, and checks what PyTorch knows then.

C++ registrations are in effect as soon as the library is loaded; those that Python makes are missing.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # otherwise `import torch` would make all registrations

import torch
from torch.utils.backend_registration import _DummyDeviceGuard


# LITERALINCLUDE START: registration-library
def library() -> Path:
    """The shared library in the installed package, which is not imported."""
    spec = importlib.util.find_spec("torch_openreg")
    folders = [Path(folder, "lib") for folder in (spec and spec.submodule_search_locations) or ()]
    return next(folder / "libtorch_openreg.so" for folder in folders if (folder / "libtorch_openreg.so").exists())


def tell(what: str, call: str) -> None:
    """Makes a call and prints its result or error."""
    try:
        print(f"{what}: {eval(call)!r}")
    except Exception as error:
        print(f"{what}: {type(error).__name__}: {str(error).splitlines()[0]}")


def main() -> None:
    """Counts the kernels, loads the library, and looks again."""
    kernels = "len(torch._C._dispatch_get_registrations_for_dispatch_key('PrivateUse1'))"
    before = eval(kernels)
    ctypes.CDLL(str(library()))
    tell("kernels were added", f"{kernels} > {before}")
    tell(
        "the fallback is there",
        "torch._C._dispatch_has_computed_kernel_for_dispatch_key('aten::angle', 'PrivateUse1')",
    )
    tell("a guard can still be registered", "torch._C._acc.register_python_privateuseone_device_guard(GUARD)")
    tell("hooks can still be registered", "torch._C._acc.register_python_privateuseone_hook(HOOKS)")
    tell("the name", "torch._C._get_privateuse1_backend_name()")
    tell("the accelerator", "torch.accelerator.current_accelerator()")
    tell("a tensor", "torch.empty(2, device='privateuseone')")


# LITERALINCLUDE END: registration-library

GUARD, HOOKS = _DummyDeviceGuard(), torch._C._acc.PrivateUse1Hooks()

if __name__ == "__main__":
    main()
