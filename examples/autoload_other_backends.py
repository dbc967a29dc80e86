"""Imports torch with a second backend installed, whose entry point raises or takes PrivateUse1's only name.

The other backend is a module and an entry point in a temporary folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# LITERALINCLUDE START: autoload-other-backends
RAISES = """
def autoload():
    raise OSError("libacme.so: cannot open shared object file")
"""
RENAMES = """
def autoload():
    import torch
    torch.utils.rename_privateuse1_backend("acme")
"""
USE = "import torch; print(torch.ones(1), torch._C._get_privateuse1_backend_name())"


def main() -> None:
    """Runs all cases."""
    run("an entry point raises", RAISES, {})
    run("the same, autoload off", RAISES, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    run("two backends", RENAMES, {})


# LITERALINCLUDE END: autoload-other-backends


def run(title: str, module: str, variables: dict[str, str]) -> None:
    """Runs a program that uses the CPU, with another backend installed."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "acme.py").write_text(module, encoding="utf-8")
        information = Path(folder, "acme-1.0.dist-info")
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n", encoding="utf-8")
        (information / "entry_points.txt").write_text("[torch.backends]\nacme = acme:autoload\n", encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": folder, **variables}  # searched before installed packages
        ran = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True)
    print(title)
    for line in ran.stdout.splitlines() + re.findall(r"^\w*Error: .*|RuntimeWarning: .*", ran.stderr, re.MULTILINE):
        print(f"   {line}")


if __name__ == "__main__":
    main()
