"""Imports PyTorch's operator database while packages are missing.

    python examples/opinfo_packages.py expecttest scipy,psutil

Each argument runs in a process of its own.
"""

from __future__ import annotations

import os
import sys
import warnings

import torch  # noqa: F401  before the forks, which share it


def outcome(packages: list[str]) -> str:
    """The outcome of the import without the packages."""
    sys.modules.update(dict.fromkeys(packages))  # type: ignore[arg-type]  # None makes an import fail
    warnings.filterwarnings("ignore", "Fail to import hypothesis", ImportWarning)
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        return str(error)
    return f"{len(op_db)} entries"


def main() -> None:
    """Forks for each argument."""
    for packages in sys.argv[1:]:
        if (child := os.fork()) == 0:
            print(f"without {packages}: {outcome(packages.split(','))}", flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
