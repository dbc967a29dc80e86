"""Imports the package in every order, with autoload on and off, broken, and beside another PyTorch.

Each case is a process of its own; of its messages the last line is printed.
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


def main() -> None:
    """Runs all cases."""
    run("torch first", f"import torch; {USE}")
    run("the backend first", f"import torch_openreg, torch; {USE}")
    run("torch first, autoload off", f"import torch; {USE}", OFF)
    run("both, autoload off", f"import torch, torch_openreg; {USE}", OFF)
    run("a backend that cannot load", f"{BROKEN}; import torch; print(torch.ones(2))")
    run("the same, by import", f"{BROKEN}; import torch_openreg", OFF)
    run("another PyTorch", "import torch_openreg", other_torch="2.12.1")
    # -S hides what is installed, as an isolated build does.
    hook = "import build_backend; build_backend.get_requires_for_build_wheel()"
    run("an isolated build", f"import sys; sys.path.insert(0, 'tools'); {hook}", flags=("-S",))


# LITERALINCLUDE END: build-imports


def run(
    title: str,
    code: str,
    variables: Mapping[str, str] | None = None,
    other_torch: str | None = None,
    flags: tuple[str, ...] = (),
) -> None:
    """Runs code, where asked beside a package that calls itself another torch, and prints output and last message."""
    with tempfile.TemporaryDirectory() as folder:
        if other_torch:
            Path(folder, "torch.py").write_text(f"__version__ = {other_torch!r}\n", encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCH_DEVICE_BACKEND")}
        environment |= {"PYTHONPATH": folder, **(variables or {})}
        ran = subprocess.run([sys.executable, *flags, "-c", code], env=environment, capture_output=True, text=True)
    print(f"{title}: {code}")
    messages = [line for line in ran.stderr.splitlines() if not line.startswith(" ")]
    for line in ran.stdout.splitlines() + messages[-1:]:
        print(f"   {re.sub(r'^/.*:[0-9]+: ', '', line)}")  # a warning begins with the file that gave it


if __name__ == "__main__":
    main()
