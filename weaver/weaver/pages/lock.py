"""The lock on the installed package's own code: the text that a page shows of it cannot change unnoticed.

``python -m weaver lock`` reads all pages and writes the lock file for the installed release. After running it, read the
changed regions and the prose around them before you commit the result.
"""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING

from weaver.fault import Fault
from weaver.pages.records import InstalledRegion, pages
from weaver.sources.installed import release

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sphinx.application import Sphinx

    from weaver.configuration import Configuration

Entry = dict[str, str]
"""One line of the lock file: a region, the hash of its text, and under the name of the package the release."""


def file(configuration: Configuration) -> Path:
    """Return the lock file."""
    return configuration.root / configuration.result(f"{configuration.installed.package}_regions.lock.json")


def read(file: Path) -> list[Entry]:
    """Return the entries of a lock file; empty when there is no such file."""
    if not file.is_file():
        return []
    entries: list[Entry] = json.loads(file.read_text(encoding="utf-8"))["regions"]
    return entries


def check(configuration: Configuration, entries: Iterable[Entry], region: InstalledRegion) -> str | None:
    """Return the fault of a region that a page shows, or None when the lock contains its text.

    Only the text matters: an entry of another release with the same text is sufficient.
    """
    package = configuration.installed.package
    key = (region.path, region.start, region.end)
    known = {entry[package]: entry for entry in entries if (entry["path"], entry["start"], entry["end"]) == key}
    if any(entry["sha256"] == region.sha256 for entry in known.values()):
        return None
    where = f"`{region.start}` of {region.path} in {package} {release(package)}"
    lock = file(configuration).relative_to(configuration.root)
    command = configuration.command("lock")
    cure = f"read what is shown now and the prose around it, then run `{command}` and commit {lock}"
    if not known:
        return f"{where} is not in the lock file; {cure}"
    return f"{where} is not the text that was locked for {package} {', '.join(sorted(known))}; {cure}"


def merged(package: str, entries: list[Entry], shown: set[InstalledRegion]) -> list[Entry]:
    """Return the new lock: the regions of the installed release, and entries of other releases that are still shown."""
    version = release(package)
    keys = {(region.path, region.start, region.end) for region in shown}
    kept = [
        entry
        for entry in entries
        if entry[package] != version and (entry["path"], entry["start"], entry["end"]) in keys
    ]
    new = [
        {package: version, "path": region.path, "start": region.start, "end": region.end, "sha256": region.sha256}
        for region in shown
    ]
    return sorted(kept + new, key=lambda entry: (entry["path"], entry["start"], entry["end"], entry[package]))


def write(file: Path, entries: list[Entry]) -> None:
    """Write a lock file, one entry per line, so that a change of one region changes one line."""
    lines = ",\n".join("  " + json.dumps(entry, sort_keys=True) for entry in entries)
    file.write_text('{"regions": [\n' + lines + ("\n" if lines else "") + "]}\n", encoding="utf-8")


def update(configuration: Configuration) -> int:
    """Read all pages and write the lock file. Returns the number of regions it holds."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    source, package = configuration.root / configuration.pages, configuration.installed.package
    if not package:
        raise Fault("weaver.toml names no installed package whose text could be locked")
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
        shown = {region for record in pages(app.env).values() for region in record.installed_regions}
    lock = file(configuration)
    old = read(lock)
    new = merged(package, old, shown)
    write(lock, new)
    for entry in new:
        if entry not in old:
            print(f"locked: {package} {entry[package]} {entry['path']}: {entry['start']}")
    changed = sum(entry not in old for entry in new)
    print(f"{lock.relative_to(configuration.root)}: {len(new)} regions, {changed} of them new or changed")
    if faults:
        print(f"the pages have {faults} other faults, which a build lists; a region that is not found is not locked")
    return len(new)


def setup(app: Sphinx) -> dict[str, bool]:
    """Declare the option that only ``update`` disables."""
    app.add_config_value("weaver_lock_check", True, "env", types=frozenset({bool}))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main(configuration: Configuration) -> None:
    """Update the lock file. Throws: ``Fault`` when the pages cannot be read."""
    from sphinx.errors import SphinxError

    try:
        update(configuration)
    except SphinxError as error:
        raise Fault(f"{file(configuration)} is not written: {error}") from None
