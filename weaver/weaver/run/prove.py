"""``python -m weaver doctest``: run every example of the pages, and report whether they are proven.

Starts from scratch (``-E``), so that no earlier state can hide a fault, and relies on the proof file: a process that an
example ended can also return an exit status of zero. Examples run in the root of the repository: what one of them
writes there would be committed with the next change, so that a new or changed file is a fault too. If pages are named,
only these run, and Sphinx's state of the others is kept, which suffices while a page is being written.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from weaver.configuration import Configuration
from weaver.fault import Fault
from weaver.options import parse
from weaver.run.builder import PROOF


def judge(proof: Path, root: Path = Path()) -> tuple[bool, str]:
    """Return whether a proof file is complete, and a one-line verdict; its path may be relative to ``root``."""
    if not (root / proof).is_file():
        return False, f"doctest: not proven: see the faults above; there is no {proof}"
    pages = json.loads((root / proof).read_text(encoding="utf-8"))["pages"]
    short = [f"{name} ran {page['ran']} of {page['examples']}" for name, page in pages.items() if _is_short(page)]
    if short:
        return False, f"doctest: not proven: {', '.join(short)}"
    with_examples = [page for page in pages.values() if page["examples"]]
    examples = sum(page["examples"] for page in with_examples)
    if not examples:
        return False, "doctest: not proven: no page has an example"
    listings = sum(page["listings"] for page in pages.values())
    return True, (
        f"doctest: {examples} examples on {len(with_examples)} pages passed, {listings} listings; proof: {proof}"
    )


def slowest(proof: Path, count: int = 5) -> str:
    """Return one line with the slowest pages of a proof file: wall-clock and processor seconds of each."""
    pages = json.loads(proof.read_text(encoding="utf-8"))["pages"].items()
    longest = sorted(pages, key=lambda page: -page[1]["seconds"])[:count]
    took = [f"{name} {page['seconds']:.1f} ({page['processor_seconds']:.1f})" for name, page in longest]
    return f"doctest: slowest pages, in seconds (of processors): {', '.join(took)}"


def digests(root: Path) -> set[tuple[str, str]]:
    """Return the files in ``root`` that git does not ignore, each with its digest; none where there is no repository.

    Throws: ``Fault`` when git cannot read the repository, such as one of another user.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if listed.returncode and any(Path(folder, ".git").exists() for folder in (root, *root.parents)):
        raise Fault(f"whether an example leaves a file in {root} is unknown: {listed.stderr.strip()}")
    files = [name for name in listed.stdout.split("\0") if (root / name).is_file()]
    return {(name, hashlib.sha256((root / name).read_bytes()).hexdigest()) for name in files}


def _is_short(page: dict[str, int]) -> bool:
    return page["ran"] != page["examples"]


def main(configuration: Configuration, arguments: list[str]) -> None:
    """Build, and print the verdict as the last line. Throws: ``Fault`` when the pages are not proven."""
    options = parse(configuration, "doctest", arguments)
    proof, root = options.output / PROOF, configuration.root
    (root / proof).unlink(missing_ok=True)
    command = [sys.executable, "-m", "sphinx", "-b", "doctest", "-W", "--keep-going", "-n"]
    command += ["-D", f"weaver_pages={','.join(options.page)}"] if options.page else ["-E"]
    command += [configuration.pages, str(options.output)]
    before = digests(root)
    status = subprocess.run(command, cwd=root, check=False).returncode
    proven, line = judge(proof, root)
    left = ", ".join(sorted({name for name, _ in digests(root) ^ before}))
    if proven and status:
        proven, line = False, f"doctest: not proven: the build ended with status {status}"
    if proven and left:
        (root / proof).unlink()
        left_there = f"an example left or changed {left} in the repository; write to a temporary folder"
        proven, line = False, f"doctest: not proven: {left_there}"
    if proven:
        print(slowest(root / proof))
    print(line)
    if not proven:
        raise Fault(f"{configuration.command('doctest')}: not every snippet holds; the faults are above")
