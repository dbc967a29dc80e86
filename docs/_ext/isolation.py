"""One process per page: a crash, a hang or an early end of one page is named, and touches no other."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from docs._ext.run_example import WARNINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

# The root comes last on the path: an installed package wins over the folder of the same name.
_ROOT = Path(__file__).resolve().parents[2]
_START = """
import sys
sys.path.append(sys.argv[1])
from pathlib import Path
from docs._ext.runner import main
main(Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]))
"""


@dataclass(frozen=True)
class Failure:
    """An example that failed, at its line of the page."""

    line: int
    text: str


@dataclass(frozen=True)
class Outcome:
    """What running a page gave: the number of examples that ran, what failed, and what it wrote to stderr."""

    ran: int
    failures: list[Failure]
    stderr: str


def run_page(
    root: Path,
    page: str,
    blocks: list[dict[str, Any]],
    seconds: float,
    *,
    python: Path = Path(sys.executable),
    environment: Mapping[str, str] | None = None,
    measure: Path | None = None,
    stop: bool = False,
) -> Outcome:
    """Run the blocks of a page, as ``asdict`` gives them, in a fresh interpreter that starts in ``root``.

    ``environment`` is added to that of this process. ``measure`` names the folder for what each example executes (see
    ``tools/proof``); ``stop`` ends the page at its first failure.
    """
    with tempfile.TemporaryDirectory() as folder:
        job, journal = Path(folder, "job.json"), Path(folder, "journal")
        task = {"page": page, "blocks": blocks, "measure": measure and str(measure), "stop": stop}
        job.write_text(json.dumps(task), encoding="utf-8")
        journal.touch()
        with Path(folder, "stdout").open("w+b") as stdout, Path(folder, "stderr").open("w+b") as stderr:
            command = [str(python), *WARNINGS, "-P", "-c", _START, str(_ROOT), str(job), str(journal), str(seconds)]
            process = subprocess.Popen(
                command,
                cwd=root,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            status = _wait(process, seconds)
            _end_group(process.pid)
            texts = [_read(stdout), _read(stderr)]
        events = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    failures = [
        Failure(event["line"], f"{event['source'].rstrip()}\n{event['text'].rstrip()}")
        for event in events
        if event["event"] == "failed"
    ]
    done = [event for event in events if event["event"] == "done"]
    at = max([event["line"] for event in events[-2:] if event["event"] == "at"], default=1)
    if status is None or not done or status:
        failures.append(Failure(at, _ending(status, bool(done), seconds, texts[1])))
    if texts[0]:
        failures.append(
            Failure(at, f"something wrote to file descriptor 1 past Python, so nothing compares it:\n{texts[0]}")
        )
    return Outcome(done[0]["ran"] if done else 0, failures, texts[1])


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Return the exit status, or None when the process had to be ended."""
    try:
        # The process ends itself first, with a traceback of what hangs; the margin is for one that cannot.
        return process.wait(seconds + 5)
    except subprocess.TimeoutExpired:
        _end_group(process.pid)
        process.wait()
        return None


def _end_group(leader: int) -> None:
    """End what an example started and did not wait for: it would run on after its page."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _ending(status: int | None, done: bool, seconds: float, stderr: str) -> str:
    if status is None or "Timeout (" in stderr:
        return f"still running after {seconds:g} seconds, and was ended:\n{stderr}"
    if status < 0:
        when = "while it ended, after its last example" if done else "in this example"
        return f"the process was killed by {signal.Signals(-status).name} {when}:\n{stderr}"
    if not done:
        return f"the process ended with status {status} before the page had run to its end:\n{stderr}"
    return f"the process ended with status {status} after its last example:\n{stderr}"


def _read(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")
