"""A PyTorch backend in Python, whose devices are processes.

``torch_remote.register()`` makes ``torch.device("remote")`` work in this process. Where the package is installed,
``import torch`` does it.
"""

from __future__ import annotations

import os


def register(base: str = "") -> None:
    """Registers the backend on a base: "compiled", or "uncompiled" without any C++; TORCH_REMOTE_BASE says which else.

    Throws: ``RuntimeError`` when a backend is registered already, ``ValueError`` for another base.
    """
    wanted = base or os.environ.get("TORCH_REMOTE_BASE", "compiled")
    if wanted == "uncompiled":
        os.environ["TORCH_REMOTE_DEVICES"] = "1"  # PyTorch's guard for Python knows one
    from . import base as bases
    from . import kernels, module

    if wanted == "compiled":
        from .compiled import Compiled

        chosen: bases.Base = Compiled()
    elif wanted == "uncompiled":
        from .uncompiled import Uncompiled

        chosen = Uncompiled()
    else:
        raise ValueError(f"remote: a base is 'compiled' or 'uncompiled', got {wanted!r}")
    bases.choose(chosen)
    chosen.register(module)
    kernels.register()
