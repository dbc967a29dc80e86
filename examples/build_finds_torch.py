"""What the build says if it finds the right PyTorch, none, another version, or a broken one."""

from __future__ import annotations

from build_imports import run  # type: ignore[import-not-found]  # beside this script

# LITERALINCLUDE START: build-finds-torch
NONE = "import sys; sys.modules['torch'] = None"  # as in an environment without it
BACKEND = "import sys; sys.path.insert(0, 'tools'); import build_backend"
CHECK = "print(build_backend._scikit_build_core().__name__)"
LOCATE = "import runpy; runpy.run_path('cmake/locate_torch.py', run_name='__main__')"


def main() -> None:
    """Runs all cases."""
    run("pip", f"{BACKEND}; {CHECK}")
    run("pip, an isolated build", f"{NONE}; {BACKEND}; {CHECK}")
    run("pip, another PyTorch", f"{BACKEND}; {CHECK}", other_torch="__version__ = '2.12.1'")
    run("CMake", LOCATE)
    run("CMake, no PyTorch", f"{NONE}; {LOCATE}")
    run("CMake, another PyTorch", LOCATE, other_torch="__version__ = '2.12.1'")
    run("CMake, a broken PyTorch", LOCATE, other_torch="")


# LITERALINCLUDE END: build-finds-torch


if __name__ == "__main__":
    main()
