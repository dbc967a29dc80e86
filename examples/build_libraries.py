"""Which libraries the three shared objects of the package name, and where the loader looks for them.

Reads the dynamic section of each with readelf, which comes with the compiler.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import torch_openreg._C

FOLDER = Path(torch_openreg._C.__file__).parent
SYSTEM = ("libstdc++", "libm.", "libgcc_s", "libc.", "ld-linux")


def main() -> None:
    """Prints each object's run path and the libraries that it needs, without those of the system."""
    for file in (
        FOLDER / "lib" / "libopenreg.so",
        FOLDER / "lib" / "libtorch_openreg.so",
        Path(torch_openreg._C.__file__),
    ):
        dynamic = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
        path = re.findall(r"\(RUNPATH\).*\[(.+)\]", dynamic)
        print(f"{file.name.split('.')[0]} looks in {path[0] if path else 'no folder'} and needs")
        for name in sorted(name for name in needed if not name.startswith(SYSTEM)) or ["nothing but the system"]:
            print(f"   {name}")


if __name__ == "__main__":
    main()
