"""The lock on the text of torch's own code: what a page shows of it cannot change unseen.

``python -m docs._ext.lock`` (``make lock``) reads all pages and writes the lock file for the installed torch. Whoever
runs it reads the changed regions, and the prose around them, before committing the result.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from docs._ext import torch_files
from docs._ext.records import TorchRegion, pages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.application import Sphinx

FILE = Path("docs", "torch_regions.lock.json")
COMMAND = "make lock"


class Entry(TypedDict):
    """One line of the lock file."""

    torch: str
    path: str
    start: str
    end: str
    sha256: str


def read(file: Path) -> list[Entry]:
    """Return the entries of a lock file, none when there is no such file."""
    if not file.is_file():
        return []
    entries: list[Entry] = json.loads(file.read_text(encoding="utf-8"))["regions"]
    return entries


def check(entries: Iterable[Entry], region: TorchRegion) -> str | None:
    """Return what is wrong with a region that a page shows, or None when the lock holds its text.

    The text is what matters: an entry of another release with the same text vouches for this one.
    """
    version = torch_files.torch_version()
    key = (region.path, region.start, region.end)
    known = {entry["torch"]: entry for entry in entries if (entry["path"], entry["start"], entry["end"]) == key}
    if any(entry["sha256"] == region.sha256 for entry in known.values()):
        return None
    where = f"`{region.start}` of {region.path} in torch {version}"
    cure = f"read what is shown now and the prose around it, then run `{COMMAND}` and commit {FILE}"
    if not known:
        return f"{where} is not in the lock file; {cure}"
    return f"{where} is not the text that was locked for torch {', '.join(sorted(known))}; {cure}"


def merged(entries: list[Entry], shown: set[TorchRegion]) -> list[Entry]:
    """Return the new lock: the shown regions for the installed torch, and what is still shown of other releases."""
    version = torch_files.torch_version()
    keys = {(region.path, region.start, region.end) for region in shown}
    kept = [
        entry
        for entry in entries
        if entry["torch"] != version and (entry["path"], entry["start"], entry["end"]) in keys
    ]
    new = [
        Entry(torch=version, path=region.path, start=region.start, end=region.end, sha256=region.sha256)
        for region in shown
    ]
    return sorted(kept + new, key=lambda entry: (entry["path"], entry["start"], entry["end"], entry["torch"]))


def write(file: Path, entries: list[Entry]) -> None:
    """Write a lock file, one entry to a line, so that a change of one region is a change of one line."""
    lines = ",\n".join("  " + json.dumps(entry, sort_keys=True) for entry in entries)
    file.write_text('{"regions": [\n' + lines + ("\n" if lines else "") + "]}\n", encoding="utf-8")


def update(root: Path) -> int:
    """Read all pages below ``root`` and write the lock file. Returns the number of regions it holds."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    source = root / "docs" / "source"
    with tempfile.TemporaryDirectory() as scratch, docutils_namespace():
        app = Sphinx(
            source,
            source,
            scratch,
            scratch,
            "dummy",
            confoverrides={"weaver_lock_check": False},
            status=None,
            warning=None,
        )
        app.build(force_all=True)
        faults = app._warncount
        shown = {region for record in pages(app.env).values() for region in record.torch_regions}
    old = read(root / FILE)
    new = merged(old, shown)
    write(root / FILE, new)
    for entry in new:
        if entry not in old:
            print(f"locked: torch {entry['torch']} {entry['path']}: {entry['start']}")
    print(f"{FILE}: {len(new)} regions, {sum(entry not in old for entry in new)} of them new or changed")
    if faults:
        print(f"the pages have {faults} other faults, which a build lists; a region that is not found is not locked")
    return len(new)


def setup(app: Sphinx) -> dict[str, bool]:
    """Declare the option that only ``update`` turns off."""
    app.add_config_value("weaver_lock_check", True, "env", types=frozenset({bool}))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main() -> int:
    """Update the lock file of the repository in the working directory. Returns the exit status."""
    from sphinx.errors import SphinxError

    try:
        update(Path.cwd())
    except SphinxError as error:
        print(f"{FILE} is not written: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
