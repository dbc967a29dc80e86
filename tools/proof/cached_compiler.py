"""A compiler for examples that compile programs of their own: what was compiled before is copied.

All mutants are in one text, so each of them finds the same program.

Arguments: the folder of the copies, the compiler and its options; then what the example gives to its compiler.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main(folder: Path, compiler: list[str], arguments: list[str]) -> int:
    """Compiles, or copies. Returns the exit status."""
    output = arguments.index("-o") + 1 if "-o" in arguments else None
    sources = [Path(word) for word in arguments if word.endswith((".cpp", ".cc", ".c"))]
    if output is None or not sources:
        # Nothing is made, so the example is about what the compiler says: warnings stay.
        heard = [word for word in compiler if word != "-w"]
        return subprocess.run([*heard, *arguments], check=False).returncode
    key = hashlib.sha256("\0".join([*compiler, *arguments[:output], *arguments[output + 1 :]]).encode())
    for source in sources:
        key.update(source.read_bytes())
    copy = folder / key.hexdigest()
    if not copy.exists():
        status = subprocess.run([*compiler, *arguments], check=False).returncode
        if status != 0:
            return status
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as temporary:
            shutil.copy(arguments[output], temporary.name)
        os.replace(temporary.name, copy)
    else:
        shutil.copy(copy, arguments[output])
    return 0


if __name__ == "__main__":
    split = sys.argv.index("--")
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:split], sys.argv[split + 1 :]))
