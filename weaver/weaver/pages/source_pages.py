"""One generated page for each source file, with an anchor at each line (``#L26``).

Captions and lists link to them. The copy button of a page copies the file without the markers of the guide. Below the
file are the mutants of it that no example has killed. A page is rewritten when its source is newer, when those have
changed, or when its frame has: the table of contents, the templates, the configuration.
"""

from __future__ import annotations

import html
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pygments import highlight
from pygments.lexers import get_lexer_by_name

from weaver.pages import current
from weaver.pages.book import is_site
from weaver.pages.copied import element
from weaver.pages.highlighting import formatter
from weaver.pages.records import pages
from weaver.pages.repository import Source, all_sources, configuration_of, installed_source
from weaver.sources.installed import bound_to
from weaver.sources.regions import language_of, without_marks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pygments.formatter import Formatter
    from sphinx.application import Sphinx
    from sphinx.config import Config

    from weaver.proof.proof_files import Mutant

_INDEX = "sources/index"
SURVIVORS = "survivors"
_SECTION = f'<section id="{SURVIVORS}">'


def _shown_sources(app: Sphinx) -> list[Source]:
    installed = {path for record in pages(app.env).values() for path in record.installed_files}
    return all_sources(app.config) + [installed_source(app.config, path) for path in sorted(installed)]


def _collect(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    if not is_site(app.builder):
        return
    sources = _shown_sources(app)
    _remove_others(app, sources)
    frame_changed, writer = _has_frame_changed(app), formatter(app)(nowrap=True)
    survived = current.measured(app).listed("survived")
    mutants = {path: list(group) for path, group in groupby(survived, key=lambda one: one[0].path)}
    for source in sources:
        section = _survivors([mutant for _, mutant in mutants.get(source.label, [])])
        if frame_changed or _is_stale(app, source, section):
            yield source.page, {"title": source.label, "body": _body(source, writer) + section}, "source.html"
    yield _INDEX, {"title": "Sources", "body": _index(sources)}, "source.html"


def _is_stale(app: Sphinx, source: Source, section: str) -> bool:
    written = _file(app, source.page)
    if not written.is_file() or source.file.stat().st_mtime > written.stat().st_mtime:
        return True
    text = written.read_text(encoding="utf-8")
    return section not in text if section else _SECTION in text


def _has_frame_changed(app: Sphinx) -> bool:
    """Return whether the frame of the pages differs from the last build, and record it for the next one."""
    templates = [Path(app.confdir, folder) for folder in app.config.templates_path]
    files = [Path(app.confdir, "conf.py"), Path(__file__), *(file for top in templates for file in top.rglob("*.html"))]
    contents = sorted((name, title.astext()) for name, title in app.env.titles.items())
    times = [file.stat().st_mtime_ns for file in files]
    # The files of another release may be older than the pages of this one.
    release = bound_to(configuration_of(app.config))
    frame = repr((contents, sorted(app.env.toctree_includes.items()), times, release))
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


def _survivors(mutants: list[Mutant]) -> str:
    """The deliberate faults in a file that no example detects; empty when there is none."""
    if not mutants:
        return ""
    rows = "\n".join(
        f'<tr><td><a href="#L{one.line}">{one.line}</a></td><td>{_changed(one.before)}</td>'
        f"<td>{_changed(one.after)}</td></tr>"
        for one in sorted(mutants, key=lambda one: one.line)
    )
    return (
        f"\n{_SECTION}<h2>Survivors</h2>\n"
        "<p>With each of these changes, one at a time, the examples of all pages that show the line still pass. In a "
        "copy, a test of yours has to notice such a mistake.</p>\n"
        '<div class="table-wrapper docutils container"><table class="proven docutils align-default">'
        "<thead><tr><th>Line</th><th>As it is</th><th>As no example notices it</th></tr></thead>\n"
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _changed(text: str) -> str:
    return f'<span class="proven-code">{html.escape(text.strip(), quote=False)}</span>' if text.strip() else "removed"


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
