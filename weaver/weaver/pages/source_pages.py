"""One generated page for each source file, with an anchor at each line (``#L26``).

Captions and lists link to them. The copy button of a page copies the file without the markers of the guide. A page is
rewritten when its source is newer, or when its frame has changed: the table of contents, the templates, the
configuration.
"""

from __future__ import annotations

import html
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygments import highlight
from pygments.lexers import get_lexer_by_name

from weaver.pages.book import is_site
from weaver.pages.copied import element
from weaver.pages.highlighting import formatter
from weaver.pages.records import pages
from weaver.pages.repository import Source, all_sources, installed_source
from weaver.sources.regions import language_of, without_marks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pygments.formatter import Formatter
    from sphinx.application import Sphinx
    from sphinx.config import Config

_INDEX = "sources/index"


def _shown_sources(app: Sphinx) -> list[Source]:
    installed = {path for record in pages(app.env).values() for path in record.installed_files}
    return all_sources(app.config) + [installed_source(app.config, path) for path in sorted(installed)]


def _collect(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    if not is_site(app.builder):
        return
    sources = _shown_sources(app)
    _remove_others(app, sources)
    frame_changed, writer = _has_frame_changed(app), formatter(app)(nowrap=True)
    for source in sources:
        if frame_changed or _is_stale(app, source):
            yield source.page, {"title": source.label, "body": _body(source, writer)}, "source.html"
    yield _INDEX, {"title": "Sources", "body": _index(sources)}, "source.html"


def _is_stale(app: Sphinx, source: Source) -> bool:
    written = _file(app, source.page)
    return not written.is_file() or source.file.stat().st_mtime > written.stat().st_mtime


def _has_frame_changed(app: Sphinx) -> bool:
    """Return whether the frame of the pages differs from the last build, and record it for the next one."""
    templates = [Path(app.confdir, folder) for folder in app.config.templates_path]
    files = [Path(app.confdir, "conf.py"), Path(__file__), *(file for top in templates for file in top.rglob("*.html"))]
    contents = sorted((name, title.astext()) for name, title in app.env.titles.items())
    frame = repr((contents, sorted(app.env.toctree_includes.items()), [file.stat().st_mtime_ns for file in files]))
    memory = Path(app.outdir, _INDEX).with_name(".frame")
    digest = sha256(frame.encode()).hexdigest()
    changed = not memory.is_file() or memory.read_text(encoding="utf-8") != digest
    memory.parent.mkdir(parents=True, exist_ok=True)
    memory.write_text(digest, encoding="utf-8")
    return changed


def _remove_others(app: Sphinx, sources: list[Source]) -> None:
    """Remove the pages of files that no longer exist."""
    wanted = {_file(app, page) for page in (_INDEX, *(source.page for source in sources))}
    for file in _file(app, _INDEX).parent.rglob("*.html"):
        if file not in wanted:
            file.unlink()


def _file(app: Sphinx, page: str) -> Path:
    return Path(app.outdir, f"{page}.html")


def _body(source: Source, writer: Formatter[str]) -> str:
    text = source.file.read_text(encoding="utf-8")
    lexer = get_lexer_by_name(language_of(source.file) or "text", stripnl=False)
    lines = highlight(text, lexer, writer).splitlines()
    width = len(str(len(lines)))
    code = "\n".join(
        f'<span class="line" id="L{number}"><a class="linenos" href="#L{number}">{number:>{width}}</a>{line}</span>'
        for number, line in enumerate(lines, start=1)
    )
    title = f"<h1><code>{html.escape(source.label)}</code></h1>"
    if source.home:
        title += (
            f'\n<p><a class="reference external" href="{html.escape(source.home)}">{html.escape(source.home)}</a></p>'
        )
    own = "" if source.installed else without_marks(source.label, text)
    copied = element(own, "Copy the file", 1) if own and own != text else ""
    return f'{title}\n<div><div class="highlight source-page"><pre>{code}</pre></div>{copied}</div>'


def _index(sources: list[Source]) -> str:
    links = [(html.escape(source.page.removeprefix("sources/")), html.escape(source.label)) for source in sources]
    items = "\n".join(f'<li><a href="{page}.html"><code>{label}</code></a></li>' for page, label in links)
    return f"<h1>Sources</h1>\n<p>Every file that a page shows, and every file beside them.</p>\n<ul>{items}</ul>"


def _add_template(app: Sphinx, config: Config) -> None:
    config.templates_path = [*config.templates_path, str(Path(__file__).with_name("templates"))]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the generator of the pages and their template."""
    app.connect("config-inited", _add_template)
    app.connect("html-collect-pages", _collect)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
