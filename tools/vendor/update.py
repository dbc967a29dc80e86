"""Updates a repository that was written earlier to another choice of chapters, or to the current guide.

The vendor's changes are kept. If both sides have changed a file, git merges them. If it cannot, nothing at all is
written, and the files are named.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from environment import ROOT, Fault
from vendor import history, shape, tree
from vendor.record import Record, digest

_Texts = dict[str, str]


@dataclass
class Changes:
    """The changes to the vendor's files."""

    added: _Texts = field(default_factory=dict)
    replaced: _Texts = field(default_factory=dict)
    merged: _Texts = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Changed by the vendor, and no longer in the guide."""

    def __str__(self) -> str:
        return (
            f"{len(self.added)} files added, {len(self.replaced)} brought up to date, "
            f"{len(self.merged)} merged with your changes, {len(self.removed)} removed"
        )

    def __bool__(self) -> bool:
        """Whether any file changes."""
        return any((self.added, self.replaced, self.merged, self.removed))

    @property
    def left_to_do(self) -> str:
        """What the vendor has to do after the update; empty if there is nothing."""
        if not self.kept:
            return ""
        them = "it" if len(self.kept) == 1 else "them"
        names = ", ".join(self.kept)
        return f"; the guide no longer has {names}, which you changed: move your changes, then delete {them}"


def changes(destination: Path, record: Record, wanted: _Texts, earlier: Callable[[], _Texts] | None = None) -> Changes:
    """Compares three states of each file: as written, as it is there, and as wanted.

    Raises:
        Fault: names the files that cannot be merged, and changes nothing.
    """
    earlier = cache(earlier or (lambda: _earlier(record)))
    result = Changes()
    faults = []
    folders = {parent for path in record.files for parent in Path(path).parents}
    removed = {folder for folder in folders if not (destination / folder).exists()}
    for path in sorted({*wanted, *record.files}):
        file = destination / path
        try:
            there = file.read_text(encoding="utf-8") if file.is_file() else None
        except UnicodeDecodeError:
            faults.append(f"{path}: is not UTF-8; convert it, or move it")
            continue
        want, was = wanted.get(path), record.files.get(path)
        if there == want:
            continue
        is_theirs = there is not None and digest(there) != was
        if was is None and want is not None:
            if not removed.isdisjoint(Path(path).parents):
                continue  # a folder that the vendor removed stays away, too
            taken = next(each for each in (file, *file.parents) if each.exists())
            if taken != file and taken.is_dir():
                result.added[path] = want
            else:
                kind = "folder" if taken.is_dir() else "file"
                name = "of this name" if taken == file else str(taken.relative_to(destination))
                faults.append(f"{path}: you have a {kind} {name}; move it")
        elif there is None or want is None:
            # A file that the vendor removed stays away, and one that the vendor changed stays.
            if there is not None:
                (result.kept if is_theirs else result.removed).append(path)
        elif not is_theirs:
            result.replaced[path] = want
        elif digest(want) != was:
            known = earlier()
            base = known.get(path, "")
            if not known:
                faults.append(f"{path}: changed on both sides, and commit {record.commit} of the guide is not here")
            elif digest(base) != was:
                faults.append(
                    f"{path}: changed on both sides, and it is not a copy of commit {record.commit} of the guide, but "
                    "of changes that were not committed"
                )
            elif (merged := _merged(there, base, want)) is None:
                faults.append(f"{path}: both sides have changed the same lines")
            else:
                result.merged[path] = merged
    if faults:
        raise Fault("\n  ".join([f"{destination} is as it was; these files cannot be brought together:", *faults]))
    return result


def apply(destination: Path, planned: Changes) -> None:
    """Writes all files beside their places first, so that a full disk changes nothing."""
    try:
        staged = Path(tempfile.mkdtemp(prefix=".vendor.", dir=destination))
    except OSError as error:
        raise Fault(f"{destination} cannot be written: {error.strerror}") from None
    try:
        texts = planned.added | planned.replaced | planned.merged
        for path, text in texts.items():
            (staged / path).parent.mkdir(parents=True, exist_ok=True)
            (staged / path).write_text(text, encoding="utf-8")
        for path in texts:
            place = destination / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.exists():
                shutil.copymode(place, staged / path)
            (staged / path).replace(place)
        for path in planned.removed:
            (destination / path).unlink()
    finally:
        shutil.rmtree(staged)


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which("git") is None:
        raise Fault("files that both sides have changed are merged by git, which is not installed")
    return history.git(ROOT, *arguments)


def _merged(mine: str, base: str, theirs: str) -> str | None:
    with tempfile.TemporaryDirectory() as temporary:
        files = []
        for name, text in (("mine", mine), ("base", base), ("theirs", theirs)):
            files.append(Path(temporary, name))
            files[-1].write_text(text, encoding="utf-8")
        done = _git("merge-file", "-p", *map(str, files))
    return done.stdout if done.returncode == 0 else None


def _earlier(record: Record) -> _Texts:
    """The repository as it was written; empty if the commit is not in this clone."""
    with tempfile.TemporaryDirectory() as temporary:
        archive = Path(temporary, "guide.zip")
        if _git("archive", "--format=zip", f"--output={archive}", record.commit).returncode != 0:
            return {}
        root = Path(temporary, "guide")
        shutil.unpack_archive(archive, root)
        texts = tree.files(record.names, record.chapters, record.state, root, record.commit)
        shaped = shape.formatted(texts)
        # An older record is of unformatted sources, or another version of a formatter formats differently.
        return {path: text if digest(text) == record.files.get(path) else shaped[path] for path, text in texts.items()}
