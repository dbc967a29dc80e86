"""Links from pages to the documentation of Python, PyTorch and NumPy, without the network.

Intersphinx reads an inventory of each site: which names it documents, and where. A full inventory has thousands of
names, and only the site has it. ``docs/inventories.toml`` has the names that pages use; this module writes them in
intersphinx's format, beside the doctrees, before any page is read. With ``nitpicky``, a name that the file lacks is a
fault of the page.
"""

from __future__ import annotations

import tomllib
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.errors import ConfigError
from weaver.sources.installed import release

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

# Sphinx's names for kinds of Python objects. Some roles find several kinds; an inventory entry has one.
_KINDS = ("attribute", "class", "data", "exception", "function", "method", "module", "property")


def read(file: Path) -> dict[str, Any]:
    """The sites of the file, in their order. Raises: ``ConfigError``, with the site and what is wrong with it."""
    try:
        sites = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None
    for name, site in sites.items():
        if not isinstance(site, dict) or not str(site.get("url", "")).startswith("https://"):
            raise ConfigError(f"{file}: [{name}] has no url that begins with https://")
        if unknown := sorted(set(site) - {"url", *_KINDS}):
            raise ConfigError(f"{file}: [{name}] has {', '.join(unknown)}; there are url, {', '.join(_KINDS)}")
    return sites


def address(url: str) -> str:
    """The address of a site, with ``{torch}`` replaced by the release of the installed package."""
    return url.replace("{torch}", ".".join(release("torch").split(".")[:2]))


def inventory(name: str, site: dict[str, Any]) -> bytes:
    """The inventory of a site, in version 2 of the format."""
    lines = [
        f"{documented} py:{kind} 1 {place.replace('$', documented)} -\n"
        for kind in _KINDS
        for documented, place in sorted(site.get(kind, {}).items())
    ]
    head = f"# Sphinx inventory version 2\n# Project: {name}\n# Version: \n"
    head += "# The remainder of this file is compressed using zlib.\n"
    return head.encode() + zlib.compress("".join(lines).encode())


def _configure(app: Sphinx, config: Config) -> None:
    """Writes the inventories and passes them to intersphinx, which then has nothing to fetch."""
    sites = read(Path(app.confdir, config.inventories))
    folder = Path(app.doctreedir, "inventories")
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for name, site in sites.items():
        file = folder / f"{name}.inv"
        file.write_bytes(inventory(name, site))
        mapping[name] = (address(site["url"]), str(file))
    config.intersphinx_mapping = mapping
    config.documented_names = repr(sites)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the configuration of intersphinx. When the file changes, all pages are read again."""
    app.setup_extension("sphinx.ext.intersphinx")
    app.add_config_value("inventories", "../inventories.toml", "", types=frozenset({str}))
    app.add_config_value("documented_names", "", "env", types=frozenset({str}))
    app.connect("config-inited", _configure, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
