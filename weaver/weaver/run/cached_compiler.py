"""A caching compiler for examples that compile programs of their own.

The key is the command and, as in make, the size and time of the compiler and of every file that it read.

Arguments: the cache folder, the compiler and its options, "--"; then the arguments that the example passes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_SOURCES = (".cpp", ".cc", ".c")


def wrapper(folder: Path, compiler: Sequence[str]) -> Path:
    """Write a program for the variable CXX into ``folder`` that compiles like ``compiler``; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "cxx"
    command = shlex.join([sys.executable, "-P", "-S", "-E", __file__, str(folder), *compiler, "--"])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def main(folder: Path, compiler: list[str], arguments: list[str]) -> int:
    """Compile, or copy from the cache. Returns the exit status."""
    if "-o" not in arguments or "-MF" in arguments or not any(word.endswith(_SOURCES) for word in arguments):
        # Without an output file, the example is about the compiler's messages: keep its warnings.
        heard = compiler if "-o" in arguments else [word for word in compiler if word != "-w"]
        return subprocess.run([*heard, *arguments], check=False).returncode
    at = arguments.index("-o") + 1
    program = os.path.realpath(shutil.which(compiler[0]) or compiler[0])
    command = [*compiler, *arguments[:at], *arguments[at + 1 :], os.getcwd(), json.dumps(_states([program]))]
    entry = folder / hashlib.sha256("\0".join(command).encode()).hexdigest()
    product, read = entry / "product", entry / "read.json"
    if read.is_file() and product.is_file():
        known = json.loads(read.read_text(encoding="utf-8"))
        if known == _states(known):
            shutil.copy(product, arguments[at])
            return 0
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        listing = Path(temporary, "read")
        status = subprocess.run([*compiler, *arguments, "-MD", "-MF", str(listing)], check=False).returncode
        if status != 0:
            return status
        # In make syntax: "target: file file \", with a backslash before each blank in a name.
        files = shlex.split(listing.read_text(encoding="utf-8").partition(": ")[2].replace("\\\n", ""))
        entry.mkdir(exist_ok=True)
        shutil.copy(arguments[at], Path(temporary, "product"))
        Path(temporary, "read.json").write_text(json.dumps(_states(files)), encoding="utf-8")
        read.unlink(missing_ok=True)  # it does not describe the new product
        os.replace(Path(temporary, "product"), product)
        os.replace(Path(temporary, "read.json"), read)
    return 0


def _states(files: Sequence[str]) -> dict[str, list[int]]:
    """Return the size and time of each file; an empty list for a missing one."""
    states = {}
    for file in files:
        try:
            found = os.stat(file)
            states[file] = [found.st_size, found.st_mtime_ns]
        except FileNotFoundError:
            states[file] = []
    return states


if __name__ == "__main__":
    split = sys.argv.index("--")
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:split], sys.argv[split + 1 :]))
