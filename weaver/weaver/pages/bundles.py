"""A download for the whole sources of a page: these files and their closure, in one archive.

Like the marks, an archive depends on more than its page, so every build makes it and its download line anew. The same
sources give the same bytes.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.osutil import relative_uri

from weaver.pages import current
from weaver.pages.book import is_site
from weaver.pages.records import pages
from weaver.pages.repository import configuration_of
from weaver.sources.closure import Sources
from weaver.sources.installed import bound_to
from weaver.sources.installed import title as installed_title
from weaver.sources.regions import without_marks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.application import Sphinx

_FOLDER = "bundles"
# The README names this many users of a file and counts the others.
_NAMED = 2
_EARLIEST = (1980, 1, 1, 0, 0, 0)  # the earliest date of the format


@dataclass(frozen=True)
class Bundle:
    """The ``own`` files of a page, and by path those that they ``need``, each with the files that use it."""

    own: tuple[str, ...]
    needed: Mapping[str, tuple[str, ...]]
    archive: bytes

    @property
    def offer(self) -> str:
        """The text of the download link."""
        own = "this file" if len(self.own) == 1 else f"these {len(self.own)} files"
        need = "it needs" if len(self.own) == 1 else "they need"
        along = f" with the {len(self.needed)} that {need}" if self.needed else ""
        return f"Download {own}{along}"

    @property
    def size(self) -> str:
        """The size of the archive."""
        return f"zip, {max(1, round(len(self.archive) / 1000))} kB"


def bundle(sources: Sources, project: str, docname: str, title: str, own_files: Iterable[str]) -> Bundle:
    """Return the bundle of a page that owns some files of the repository."""
    configuration, name = sources.configuration, PurePosixPath(docname).name
    own = tuple(sorted(own_files))
    # Files that are not code, such as scripts and build files, have no closure.
    closed = sources.closure(path for path in own if path in sources.texts)
    users: dict[str, set[str]] = {path: set() for path in sorted(closed - set(own))}
    for user in closed:
        for path in sources.needed(user):
            if path in users and path != user:
                users[path].add(user)
    needed = {path: tuple(sorted(found)) for path, found in users.items()}
    license_file = [configuration.license_file] if (configuration.root / configuration.license_file).is_file() else []
    paths = (*license_file, *own, *needed)
    files = {path: without_marks(path, (configuration.root / path).read_text(encoding="utf-8")) for path in paths}
    license_of = [f"License: {configuration.license}, see {path}." for path in license_file if configuration.license]
    lines = [
        f'Sources of the page "{title}" of {project}.',
        " ".join([*license_of, f"Release of {installed_title(configuration)}: {bound_to(configuration)[1]}."]),
        *_listing(own, needed),
    ]
    if name in sources.chapters and configuration.bundle_note:
        lines += ["", configuration.bundle_note.format(chapter=name)]
    files["README.txt"] = "".join(f"{line}\n" for line in lines)
    return Bundle(own, needed, _archive(name, files))


def _listing(own: tuple[str, ...], needed: Mapping[str, tuple[str, ...]]) -> list[str]:
    lines = ["", "Of the page itself:", *(f"  {path}" for path in own)]
    if needed:
        lines += ["", "What these need, each with what needs it:"]
        lines += [f"  {path}: {_listed(users)}" for path, users in needed.items()]
    return lines


def _listed(users: tuple[str, ...]) -> str:
    others = len(users) - _NAMED
    return ", ".join(users[:_NAMED]) + (f" and {others} more" if others > 0 else "")


def _archive(folder: str, files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{folder}/{path}", _EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, on any machine that writes it
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text)
    return buffer.getvalue()


_made: WeakKeyDictionary[Sphinx, dict[str, Bundle]] = WeakKeyDictionary()


def _bundles(app: Sphinx) -> dict[str, Bundle]:
    """Return the bundles of all pages that have sources. Requires: all pages are read."""
    if app not in _made:
        sources = Sources(configuration_of(app.config))
        _made[app] = {
            docname: bundle(sources, app.config.project, docname, app.env.titles[docname].astext(), record.whole)
            for docname, record in pages(app.env).items()
            if record.whole
        }
    return _made[app]


class Offer(SphinxPostTransform):
    """Puts the download line above the first list of whole sources of a page."""

    default_priority = 5
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Add the line."""
        if not is_site(self.app.builder):
            return
        found = _bundles(self.app).get(self.env.docname)
        lists = self.document.findall(nodes.bullet_list)
        first = next((each for each in lists if "whole-sources" in each["classes"]), None)
        if found is None or first is None:
            return
        uri = relative_uri(self.app.builder.get_target_uri(self.env.docname), _uri(self.env.docname))
        link = nodes.reference("", found.offer, refuri=uri, internal=True, classes=["bundle-link"])
        size = nodes.inline("", f" ({found.size})", classes=["line-count"])
        first.parent.insert(first.parent.index(first), nodes.paragraph("", "", link, size, classes=["bundle"]))


def _uri(docname: str) -> str:
    return f"{_FOLDER}/{docname}.zip"


def _said(app: Sphinx, docname: str) -> str:
    found = _bundles(app).get(docname)
    return f"{found.offer} {found.size}" if found else ""


def _write(app: Sphinx) -> list[tuple[str, dict[str, object], str]]:
    """Write each missing or outdated archive, and remove those of pages that have none."""
    if is_site(app.builder):
        wanted = {Path(app.outdir, _uri(docname)): found.archive for docname, found in _bundles(app).items()}
        for file in Path(app.outdir, _FOLDER).rglob("*.zip"):
            if file not in wanted:
                file.unlink()
        for file, archive in wanted.items():
            if not file.is_file() or file.read_bytes() != archive:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(archive)
    return []


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the download lines and the archives."""
    app.setup_extension("weaver.pages.current")
    current.keep_current(app, _said)
    app.add_post_transform(Offer)
    app.connect("html-collect-pages", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
