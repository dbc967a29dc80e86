"""The repository as the weaver sees it: where it is, which of its files pages may show, and why they are proven."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sphinx.errors import ConfigError
from sphinx.util import logging

from weaver.configuration import Configuration, find
from weaver.fault import Fault
from weaver.sources import installed
from weaver.sources.regions import language_of, source_files

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config
    from sphinx.environment import BuildEnvironment

logger = logging.getLogger(__name__)

_COMPILED = {".c", ".cc", ".cpp"}


@dataclass(frozen=True)
class Source:
    """A file that a page shows.

    ``label`` is its name in captions; ``page`` is the generated page with the whole file; ``executed`` means that the
    file is proven only where an example of the page runs it, while a build compiles or imports other files. ``home`` is
    the URL of an installed file in the repository of its package; empty when the repository does not have it.
    """

    file: Path
    label: str
    page: str
    installed: bool = False
    executed: bool = False
    home: str = ""


def configuration_of(config: Config) -> Configuration:
    """Return the configuration in ``weaver.toml``."""
    return cast("Configuration", config.weaver)


def root_of(config: Config) -> Path:
    """Return the root of the repository."""
    return configuration_of(config).root


def report(docname: str | None, line: int | None, message: str, subtype: str) -> None:
    """Report a fault of a page. It is a warning, so that one run lists all of them; ``-W`` makes the build fail."""
    logger.warning(message, location=(docname, line) if docname else None, type="weaver", subtype=subtype)


def installed_source(config: Config, argument: str) -> Source:
    """Return the source of a path such as ``torch:ATen/Context.h``. Throws: ``LookupError``."""
    shown = configuration_of(config).installed
    file, relative = installed.locate(shown, argument), argument.partition(":")[2]
    label = f"{shown.package} {installed.release(shown.package)}: {relative}"
    home = installed.home(shown, argument)
    return Source(file, label, f"sources/{shown.package}/{relative}", installed=True, home=home)


def repository_source(config: Config, relative: str) -> Source:
    """Return the source of a path relative to the root of the repository. Throws: ``LookupError``."""
    configuration = configuration_of(config)
    root = configuration.root
    file = (root / relative).resolve()
    if not file.is_relative_to(root):
        raise LookupError(f"{relative} lies outside the repository")
    label = file.relative_to(root).as_posix()
    if not file.is_file():
        raise LookupError(f"no file {label} in the repository")
    if not configuration.covers(configuration.sources, label):
        raise LookupError(
            f"{label} is not compiled, imported or executed by a build, so a page cannot show it; "
            f"what it can show: {', '.join(configuration.sources)}"
        )
    if language_of(file) is None:
        raise LookupError(
            f"{label} is of a language that the weaver does not know, so it gets no page: "
            "weaver/sources/regions.py lists those it knows"
        )
    executed = configuration.covers(configuration.executed, label)
    if file.suffix in _COMPILED and not executed and not _is_compiled(root, label):
        raise LookupError(f"{label} is named by no CMakeLists.txt, so nothing compiles it and a page cannot show it")
    return Source(file, label, f"sources/{label}", executed=executed)


def page_source(env: BuildEnvironment, docname: str, argument: str) -> Source:
    """Return the source that a path on a page names. Throws: ``LookupError``.

    A prefix of ``[installed]`` denotes a file of that package, a leading ``/`` the root of the repository; any other
    path is relative to the page, as in stock Sphinx.
    """
    if installed.is_path(configuration_of(env.config).installed, argument):
        return installed_source(env.config, argument)
    if argument.startswith("/"):
        return repository_source(env.config, argument[1:])
    folder = Path(env.doc2path(docname)).parent
    return repository_source(env.config, str(folder / argument))


def all_sources(config: Config) -> list[Source]:
    """Return all files of the repository that pages can show, in a stable order."""
    configuration = configuration_of(config)
    root = configuration.root
    labels = [file.relative_to(root).as_posix() for file in source_files(root, configuration.sources)]
    return [Source(root / label, label, f"sources/{label}") for label in labels]


def _is_compiled(root: Path, label: str) -> bool:
    """Return whether a CMakeLists.txt above the file, or a file in ``cmake``, names the file or globs its folder."""
    lists = [(root / parent / "CMakeLists.txt", parent) for parent in Path(label).parents]
    lists += [(file, Path()) for file in sorted((root / "cmake").glob("*.cmake"))]
    by_name = rf"(?<![\w.-]){re.escape(Path(label).name)}(?![\w.-])"
    for file, parent in lists:
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        by_folder = rf"(?<![\w./-]){re.escape(Path(label).parent.relative_to(parent).as_posix())}(?![\w./-])"
        if re.search(by_name, text) or ("file(GLOB" in text and re.search(by_folder, text)):
            return True
    return False


def _configure(app: Sphinx, config: Config) -> None:
    try:
        config.weaver = find(Path(app.confdir))
    except Fault as fault:
        raise ConfigError(str(fault)) from None
    config.weaver_digest = _digest(app)


def _digest(app: Sphinx) -> str:
    """Return a digest of the weaver, the project's own extensions and the release to which results are bound."""
    configuration = configuration_of(app.config)
    digest = sha256(repr(installed.bound_to(configuration)).encode())
    weaver = Path(__file__).resolve().parents[1]
    modules = (getattr(extension.module, "__file__", None) for extension in app.extensions.values())
    own = {file for name in modules if name and (file := Path(name).resolve()).is_relative_to(configuration.root)}
    for file in sorted({*weaver.rglob("*.py"), *own}):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def setup(app: Sphinx) -> dict[str, bool]:
    """Read the configuration. When it or the weaver itself has changed, Sphinx reads all pages again."""
    app.add_config_value("weaver", None, "env", types=frozenset({Configuration}))
    app.add_config_value("weaver_digest", "", "env", types=frozenset({str}))
    app.connect("config-inited", _configure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
