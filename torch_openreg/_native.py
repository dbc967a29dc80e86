"""Loads the kernels in the device's own language (csrc/native), if the build and the driver support them.

The environment variable OPENREG_NATIVE_KERNELS, read once at import, has one of three values:

* `auto` (the default): loaded if the build has no host kernels and the driver can load modules.
* `on`: loaded; an operator that also has a host kernel uses the native one.
* `off`: not loaded.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch

import torch_openreg._C
from torch_openreg._build_info import HOST_KERNELS

_LIBRARY = Path(torch_openreg._C.__file__).parent / "lib" / "libopenreg_native.so"


# LITERALINCLUDE START: native-loading
def _is_wanted() -> bool:
    choice = os.environ.get("OPENREG_NATIVE_KERNELS", "auto")
    has_modules = torch_openreg._C._has_modules()
    if choice not in ("auto", "on", "off"):
        raise ImportError(f"torch_openreg: OPENREG_NATIVE_KERNELS is 'auto', 'on' or 'off', got {choice!r}")
    if choice == "on" and not has_modules:
        raise ImportError(  # NOT PROVEN: needs a driver without modules
            "torch_openreg: OPENREG_NATIVE_KERNELS=on, but the driver has no orModuleLoad to load kernels with: "
            "set it to 'auto' or 'off', or build with a driver that takes modules"
        )
    # A backend generated from this one may lack csrc/native.
    return choice == "on" or (choice == "auto" and has_modules and not HOST_KERNELS and _LIBRARY.exists())


def load_native_kernels() -> None:
    """Loads the library, whose registrations override the earlier ones.

    Raises:
        ImportError: if the value is none of the three, or if it is "on" and the driver cannot load modules.
        OSError: if the value is "on" and the library is missing.
    """
    if _is_wanted():
        torch.ops.load_library(_LIBRARY)  # type: ignore[no-untyped-call]


# LITERALINCLUDE END: native-loading
