"""Runs statements in processes of their own, and prints how each statement ends.

    python examples/fresh_process.py 'torch.openreg.init(); torch.openreg.is_initialized()' 'torch.ones(2)'

Each argument runs in a process of its own: statements separated by "; ", with `torch` imported. With
TORCH_DEVICE_BACKEND_AUTOLOAD=0 in the environment, no backend is loaded.
"""

from __future__ import annotations

import ast
import os
import sys
import warnings

import torch


def outcome(statement: str, names: dict[str, object]) -> str:
    """Runs one statement and says how it ends."""
    try:
        if not isinstance(ast.parse(statement).body[0], ast.Expr):
            exec(statement, names)
            return "no error"
        value = eval(statement, names)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return "no error" if value is None else repr(value)


def main() -> None:
    """Forks for each argument; this process has not used a device."""
    warnings.filterwarnings("ignore", "TypedStorage is deprecated")
    for group in sys.argv[1:]:
        if (child := os.fork()) == 0:
            names: dict[str, object] = {"torch": torch, "os": os}
            for statement in group.split("; "):
                print(f"{statement}\n   {outcome(statement, names)}", flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
