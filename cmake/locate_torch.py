"""Tells CMake where PyTorch is and how it was built, without importing it.

Importing torch takes seconds, and would load the backend that is about to be built. Prints one CMake list:
version;include folder;library folder;1 if std::string has the C++11 ABI, else 0;1 if built for XPU, else 0.
Exits with one line on stderr if there is no torch, or one of a series that pyproject.toml does not list.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from prerequisites import supported_series, torch_version_fault


def assignment(source: str, name: str) -> str | None:
    """The string assigned to a top-level name of torch/version.py, or None where it holds None."""
    match = re.search(rf"^{name}\b[^=\n]*=\s*(?:'([^']*)'|\"([^\"]*)\"|None)", source, re.MULTILINE)
    if match is None:
        return None
    return match.group(1) or match.group(2)


def main() -> None:
    """Prints the list described above."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit(f"PyTorch {supported_series()} is needed, found none for {sys.executable}")
    # Resolved, because gcc shortens the paths of system headers by resolving links, and __FILE__ must be mapped.
    root = Path(spec.origin).resolve().parent
    version_source = (root / "version.py").read_text(encoding="utf-8")
    version = assignment(version_source, "__version__")
    if version is None:
        sys.exit(f"{root / 'version.py'} names no version")
    if fault := torch_version_fault(version):
        sys.exit(fault)
    # With the C++11 ABI, every mangled name that contains std::string has this tag; without it, none has.
    cxx11_abi = b"__cxx11" in (root / "lib" / "libc10.so").read_bytes()
    xpu = assignment(version_source, "xpu") is not None
    print(version, root / "include", root / "lib", int(cxx11_abi), int(xpu), sep=";", end="")


if __name__ == "__main__":
    main()
