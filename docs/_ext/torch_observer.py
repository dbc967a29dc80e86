"""What ``make proof`` sees of a page besides its lines (``[measure]`` of weaver.toml): what fell back to the CPU.

The backend counts the operators that fall back. A page that used one is measured again once the backend registers it,
because another kernel runs then. In the processes of a page, autograd's threads are traced too.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

SURFACE = Path("docs", "proof", "surface.txt")
CHANGED = "the backend has {} now, which fell back to the CPU when it was measured"


def fell_back() -> Iterable[str]:
    """The operators that have fallen back in this process since the backend's counts were last reset."""
    module = sys.modules.get("torch_openreg._C")
    names: Iterable[str] = module._fallback_stats() if module is not None else ()
    return names


def present(root: Path) -> set[str]:
    """The operators that the backend registers, according to docs/proof/surface.txt; none without the file."""
    file = root / SURFACE
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return {line.partition("(")[0].partition(": ")[0] for line in text.partition("[operators]\n")[2].splitlines()}


def _trace_autograd(execute: Callable[[ModuleType], None], module: Any) -> None:
    """Traces autograd's threads too: PyTorch creates them, so Python's ``threading`` does not know them."""
    execute(module)
    apply = module.BackwardCFunction.apply

    def traced(self: Any, *arguments: Any) -> Any:
        if sys.gettrace() is None:
            sys.settrace(threading.gettrace())
        return apply(self, *arguments)

    module.BackwardCFunction.apply = traced


# Modules whose import is wrapped, and the wrappers.
SURROUND = {"torch.autograd.function": _trace_autograd}
