"""The repository as the weaver sees it: where it stands, which of its files may be shown, and why they are proven."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging

from docs._ext import torch_files
from docs._ext.regions import source_files

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config
    from sphinx.environment import BuildEnvironment

logger = logging.getLogger(__name__)

_COMPILED = {".c", ".cc", ".cpp"}


@dataclass(frozen=True)
class Source:
    """A file that a page shows.

    ``label`` is how captions name it; ``page`` is the generated page that holds the whole file; ``executed`` says that
    the file is proven only where an example of the page runs it, while other files are compiled or imported by a build.
    """

    file: Path
    label: str
    page: str
    torch: bool = False
    executed: bool = False


def root_of(config: Config) -> Path:
    """Return the root of the repository."""
    return Path(config.weaver_root)


def report(docname: str | None, line: int | None, message: str, subtype: str) -> None:
    """Report a fault of a page. It is a warning, so that one run lists all of them; ``-W`` makes the build fail."""
    logger.warning(message, location=(docname, line) if docname else None, type="weaver", subtype=subtype)


def torch_source(argument: str) -> Source:
    """Return the source of a ``torch:`` or ``torch-py:`` path. Throws: ``LookupError``."""
    file = torch_files.locate(argument)
    relative = argument.partition(":")[2]
    return Source(file, f"torch {torch_files.torch_version()}: {relative}", f"sources/torch/{relative}", torch=True)


def repository_source(config: Config, relative: str) -> Source:
    """Return the source of a path relative to the root of the repository. Throws: ``LookupError``."""
    root = root_of(config)
    file = (root / relative).resolve()
    if not file.is_relative_to(root):
        raise LookupError(f"{relative} lies outside the repository")
    label = file.relative_to(root).as_posix()
    if not file.is_file():
        raise LookupError(f"no file {label} in the repository")
    if not _covers(config.weaver_sources, label):
        raise LookupError(
            f"{label} is not compiled, imported or executed by a build, so a page cannot show it; "
            f"what it can show: {', '.join(config.weaver_sources)}"
        )
    executed = _covers(config.weaver_executed, label)
    if file.suffix in _COMPILED and not executed and not _is_compiled(root, label):
        raise LookupError(f"{label} is named by no CMakeLists.txt, so nothing compiles it and a page cannot show it")
    return Source(file, label, f"sources/{label}", executed=executed)


def page_source(env: BuildEnvironment, docname: str, argument: str) -> Source:
    """Return the source that a path on a page names. Throws: ``LookupError``.

    ``torch:`` and ``torch-py:`` name files of the installed torch, a leading ``/`` the root of the repository; any
    other path is relative to the page, as in stock Sphinx.
    """
    if torch_files.is_torch_path(argument):
        return torch_source(argument)
    if argument.startswith("/"):
        return repository_source(env.config, argument[1:])
    folder = Path(env.doc2path(docname)).parent
    return repository_source(env.config, str(folder / argument))


def all_sources(config: Config) -> list[Source]:
    """Return all files of the repository that pages can show, in a stable order."""
    root = root_of(config)
    labels = [file.relative_to(root).as_posix() for file in source_files(root, config.weaver_sources)]
    return [Source(root / label, label, f"sources/{label}") for label in labels]


def _covers(entries: list[str], label: str) -> bool:
    return any(label == entry or label.startswith(f"{entry}/") for entry in entries)


def _is_compiled(root: Path, label: str) -> bool:
    """Say whether a CMakeLists.txt names the file, as lists are kept per folder, or takes all files of its folder."""
    lists = [(root / parent / "CMakeLists.txt", parent) for parent in Path(label).parents]
    lists += [(file, Path()) for file in sorted((root / "cmake").glob("*.cmake"))]
    by_name = rf"(?<![\w.-]){re.escape(Path(label).name)}(?![\w.-])"
    for file, parent in lists:
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        by_folder = rf"(?<![\w./-]){re.escape(Path(label).parent.relative_to(parent).as_posix())}(?![\w./-])"
        if re.search(by_name, text) or ("file(GLOB" in text and re.search(by_folder, text)):
            return True
    return False


def setup(app: Sphinx) -> dict[str, bool]:
    """Declare where the repository is and what of it may be shown."""
    app.add_config_value("weaver_root", "", "env", types=frozenset({str}))
    app.add_config_value("weaver_sources", [], "env", types=frozenset({list}))
    app.add_config_value("weaver_executed", [], "env", types=frozenset({list}))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
