"""Imports the package in every order, with autoload on and off, broken, and beside another PyTorch.

Each case runs in a process of its own; the last line of its messages is printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

# LITERALINCLUDE START: build-imports
USE = "print(torch.ones(2, device='openreg'))"
OFF = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
BROKEN = "import sys; sys.modules['torch_openreg._C'] = None"  # from here on, importing the bindings fails
UNBUILT = "import sys; sys.modules['torch_openreg._build_info'] = None"
ERRORS = ("-W", "error::RuntimeWarning")


def main() -> None:
    """Runs all cases."""
    run("torch first", f"import torch; {USE}")
    run("the backend first", f"import torch_openreg, torch; {USE}")
    run("torch first, autoload off", f"import torch; {USE}", OFF)
    run("both, autoload off", f"import torch, torch_openreg; {USE}", OFF)
    run("a backend that cannot load", f"{BROKEN}; import torch; print(torch.ones(2))")
    run("the same, warnings are errors", f"{BROKEN}; import torch; print(torch.ones(2))", flags=ERRORS)
    run("the same, by import", f"{BROKEN}; import torch_openreg", OFF)
    run("the source folder, not built", f"{UNBUILT}; import torch_openreg", OFF)
    run("another PyTorch", "import torch_openreg", other_torch="__version__ = '2.12.1'")


# LITERALINCLUDE END: build-imports


def run(
    title: str,
    code: str,
    variables: Mapping[str, str] | None = None,
    other_torch: str | None = None,
    flags: tuple[str, ...] = (),
) -> None:
    """Prints the output and last message of code. ``other_torch`` is the version.py of another torch beside it."""
    with tempfile.TemporaryDirectory() as folder:
        if other_torch is not None:
            package = Path(folder, "torch")
            package.mkdir()
            (package / "version.py").write_text(other_torch + "\n", encoding="utf-8")
            (package / "__init__.py").write_text("from torch.version import *\n" + other_torch, encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCH_DEVICE_BACKEND")}
        environment |= {"PYTHONPATH": folder, **(variables or {})}
        ran = subprocess.run([sys.executable, *flags, "-c", code], env=environment, capture_output=True, text=True)
    print(f"{title}: {code}")
    # The last message. A warning begins with its source location, and the source line follows it.
    message = re.search(r"^(?:/.*:[0-9]+: )?(\S.*\n(?: .*\n)*)\Z", ran.stderr, re.MULTILINE)
    for line in (ran.stdout + (message.group(1) if message else "")).splitlines():
        print(f"   {line}")


if __name__ == "__main__":
    main()
