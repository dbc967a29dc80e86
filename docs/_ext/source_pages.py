"""One generated page for each source file, whole, with an anchor at each line (``#L26``).

Captions link to them. A page is written again when its source is newer, or when the site's look has changed.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from docs._ext.records import pages
from docs._ext.regions import language_of
from docs._ext.repository import Source, all_sources, torch_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

_INDEX = "sources/index"


def _shown_sources(app: Sphinx) -> list[Source]:
    torch = {path for record in pages(app.env).values() for path in record.torch_files}
    return all_sources(app.config) + [torch_source(path) for path in sorted(torch)]


def _collect(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    if app.builder.format != "html":
        return
    sources = _shown_sources(app)
    for source in sources:
        if _is_stale(app, source):
            yield source.page, {"title": source.label, "body": _body(source)}, "source.html"
    yield _INDEX, {"title": "Sources", "body": _index(sources)}, "source.html"


def _is_stale(app: Sphinx, source: Source) -> bool:
    written = Path(app.outdir, f"{source.page}.html")
    if not written.is_file():
        return True
    time = written.stat().st_mtime
    newest = [source.file, Path(app.confdir, "conf.py"), *Path(app.srcdir).rglob("index.md")]
    return any(file.stat().st_mtime > time for file in newest)


def _body(source: Source) -> str:
    text = source.file.read_text(encoding="utf-8")
    lexer = get_lexer_by_name(language_of(source.file) or "text", stripnl=False)
    lines = highlight(text, lexer, HtmlFormatter(nowrap=True)).splitlines()
    width = len(str(len(lines)))
    code = "\n".join(
        f'<span class="line" id="L{number}"><a class="linenos" href="#L{number}">{number:>{width}}</a>{line}</span>'
        for number, line in enumerate(lines, start=1)
    )
    title = f"<h1><code>{html.escape(source.label)}</code></h1>"
    return f'{title}\n<div class="highlight source-page"><pre tabindex="0">{code}</pre></div>'


def _index(sources: list[Source]) -> str:
    links = [(html.escape(source.page.removeprefix("sources/")), html.escape(source.label)) for source in sources]
    items = "\n".join(f'<li><a href="{page}.html"><code>{label}</code></a></li>' for page, label in links)
    return f"<h1>Sources</h1>\n<p>Every file that a page shows, and every file beside them.</p>\n<ul>{items}</ul>"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the generator of the pages."""
    app.connect("html-collect-pages", _collect)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
