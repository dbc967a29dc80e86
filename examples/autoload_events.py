"""Imports PyTorch and the backend in both orders, and prints in which order their modules are executed.

Each order runs in a process of its own. A module that is imported again is neither executed nor printed.
"""

from __future__ import annotations

import subprocess
import sys

# LITERALINCLUDE START: autoload-events
MODULES = (
    "torch",
    "torch_openreg_autoload",
    "torch_openreg",
    "torch_openreg._C",
    "torch_openreg.openreg",
    "torch._native",  # the last that torch/__init__.py imports, after the entry points
)
WATCH = f"""
import sys
expected = set({MODULES!r})
class Watch:
    def find_spec(name, path, target=None):
        if name in expected:
            expected.remove(name)
            print("   begin", name)
sys.meta_path.insert(0, Watch)
"""


def main() -> None:
    """Runs both orders."""
    for first, second in (("torch", "torch_openreg"), ("torch_openreg", "torch")):
        print(f"import {first}, {second}", flush=True)
        code = f"{WATCH}\nimport {first}\nprint('   end', {first!r})\nimport {second}\nprint('   end', {second!r})"
        subprocess.run([sys.executable, "-c", code], check=True)


# LITERALINCLUDE END: autoload-events

if __name__ == "__main__":
    main()
