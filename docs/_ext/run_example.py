"""``run_example``: runs a script of ``examples/`` from a page, in a fresh process, so that its output is compared.

It is known to every executed block by that name.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Without NumPy, importing torch warns of it; no example is about that.
_WARNINGS = ["-W", "error", "-W", "ignore:Failed to initialize NumPy:UserWarning"]
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n(?:^ .*\n|^\s*\n)*", re.MULTILINE)


def run_example(path: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
    """Run the script ``path`` (relative to the root of the repository, where pages run) and print what it printed.

    ``arguments`` are given to the script, ``env`` is added to its environment. What it writes to stderr follows, of a
    traceback only the message. Python warnings are errors. Throws: ``RuntimeError`` when a signal kills the script.
    """
    done = subprocess.run(
        [sys.executable, *_WARNINGS, path, *arguments],
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout, end="")
    print(_TRACEBACK.sub("", done.stderr), end="")
    if done.returncode < 0:
        raise RuntimeError(f"{path} was killed by {signal.Signals(-done.returncode).name}")
