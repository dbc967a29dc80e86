"""A PyTorch backend in Python, whose devices are processes.

``torch_remote.register()`` makes ``torch.device("remote")`` work in this process. If the package is installed,
``import torch`` calls it (torch_remote_autoload.py).
"""

from __future__ import annotations

import os

_registered: list[str] = []  # the name of the base, once there is one


def register(base: str = "") -> None:
    """Registers the backend on a base: "compiled", or "uncompiled" without any C++. TORCH_REMOTE_BASE is the default.

    Does nothing if ``import torch`` has done it. Throws: ``RuntimeError`` if the process has registered another base,
    ``ImportError`` if the C++ is not compiled, ``ValueError`` if the base is neither of these two.
    """
    wanted = base or os.environ.get("TORCH_REMOTE_BASE", "compiled")
    if wanted not in ("compiled", "uncompiled"):
        raise ValueError(f"remote: a base is 'compiled' or 'uncompiled', got {wanted!r}")
    if _registered == [wanted]:
        return
    if _registered:
        raise RuntimeError(
            f"remote: the base is {_registered[0]!r} already, and cannot become {wanted!r}: a process has one; "
            f"set TORCH_REMOTE_BASE={wanted} before `import torch`"
        )
    if wanted == "uncompiled":
        os.environ["TORCH_REMOTE_DEVICES"] = "1"  # PyTorch's guard for Python knows only one
    from . import base as bases
    from . import kernels, module

    if wanted == "compiled":
        from .compiled import Compiled

        chosen: bases.Base = Compiled()
    else:
        from .uncompiled import Uncompiled

        chosen = Uncompiled()
    bases.choose(chosen)
    chosen.register(module)
    kernels.register()
    _registered.append(wanted)
