"""What the compiler says about code that drops the driver's error code; run it in the root of the repository."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

LINES = (
    "orFree(pointer);",
    "openreg::warn(orFree(pointer));",
    "openreg::check(orMemset(pointer, 0, 8));",
    "auto call = [&] { return orMemset(pointer, 0, 8); }; call();",
    "const bool finished = openreg::is_finished(orStreamQuery(nullptr)); if (finished) return;",
)


def main() -> None:
    """Compiles each line as the body of a function."""
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    command = [*compiler, "-std=c++20", "-Wall", "-Werror", "-fsyntax-only", "-Icsrc", "-xc++", "-"]
    for line in LINES:
        program = f'#include "runtime/error.h"\nvoid function(void* pointer) {{ {line} }}\n'
        ran = subprocess.run(command, input=program, capture_output=True, text=True, check=False)
        refused = re.search(r"\[-Werror[=,](?:-W)?([\w-]+)", ran.stderr)
        print(
            f"{line}\n   {'refused: -W' + refused[1] if refused else 'compiles' if ran.returncode == 0 else ran.stderr}"
        )


if __name__ == "__main__":
    main()
