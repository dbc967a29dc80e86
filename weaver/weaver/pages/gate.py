"""The gate: a page shows only proven code.

Every code block is an excerpt of a source that a build compiles, imports or executes, or an example that the doctest
builder executes, or compared output, or a command that CI runs. Anything else is a fault, with its page and line.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging

from weaver.pages import console_scripts, where
from weaver.pages.records import page, pages
from weaver.pages.repository import Source, configuration_of, report, root_of
from weaver.run import examples
from weaver.sources import regions
from weaver.sources.binding import run_digest, step_digest
from weaver.sources.scripts import Scripts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

logger = logging.getLogger(__name__)

_PATH = re.compile(r"[\w.-]+/[\w./-]*\w")
_SCRIPT = re.compile(r"[\w./-]+\.py\b")
_RAW_CODE = re.compile(r"<(?:pre|code|samp)\b", re.IGNORECASE)


def _check_page(app: Sphinx, doctree: nodes.document) -> None:
    env = app.env
    docname = env.docname
    file = Path(env.doc2path(docname))
    blocks, wrong = examples.read(doctree, file)
    record = page(env, docname)
    scripts = Scripts(configuration_of(app.config))
    record.examples = [step_digest(step.source, step.want, scripts) for block in blocks for step in block.steps]
    record.digest = run_digest((asdict(block) for block in blocks), scripts)
    _depend(env, [scripts.root / path for path in sorted(scripts.read)])
    for fault in wrong:
        report(docname, fault.line, fault.message, "example")
    executed = "\n".join(map(_without_comments, examples.sources(blocks)))
    lines = file.read_text(encoding="utf-8").splitlines()
    for node in doctree.findall(nodes.literal_block):
        if examples.is_executed(node):
            continue
        hint = where.find(lines, node.astext().splitlines()[:3], _line(node))
        for line, message in _check_block(app, node, executed, hint):
            report(docname, line, message, "unproven")
    for line, message in _check_prose(doctree):
        report(docname, line, message, "unproven")
    for line, message in _check_form(doctree, lines):
        report(docname, line, message, "form")
    _note_mentions(doctree, docname, env)


def _check_block(app: Sphinx, node: nodes.literal_block, executed: str, hint: int) -> Iterator[tuple[int, str]]:
    source = node.get("weaver_source")
    if source is not None:
        if source.executed and not _is_run(app, source, executed):
            yield node.line or hint, f"{source.label} is shown, but no example of this page runs it (names its path)"
    elif node.get("language") == "console":
        configuration = configuration_of(app.config)
        files = console_scripts.scripts(configuration)
        _depend(app.env, files)
        for offset, message in console_scripts.check(configuration, files, node.astext()):
            yield hint + offset, message
    else:
        language = node.get("language", "")
        yield (
            hint,
            f"unproven code block ({language or 'no language'}): it is neither included from a source "
            "({literalinclude}), nor executed ({doctest}, {testcode}, {console-run}), "
            "nor compared output ({testoutput})",
        )


def _is_run(app: Sphinx, source: Source, executed: str) -> bool:
    """Return whether the examples of a page run a file: they import it, or name its path or a script that names it."""
    named = [root_of(app.config) / path for path in _SCRIPT.findall(executed)]
    scripts = [script for script in named if script.is_file()]
    _depend(app.env, scripts)
    texts = [_without_comments(script.read_text(encoding="utf-8")) for script in scripts]
    imported = re.search(rf"^\s*(?:from|import) {re.escape(source.file.stem)}\b", executed, re.MULTILINE)
    return bool(imported) or _names(executed, source.label) or any(_names(text, source.file.name) for text in texts)


def _names(text: str, name: str) -> bool:
    """Return whether a text has a name, not as a part of a longer one."""
    return bool(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", text))


def _without_comments(code: str) -> str:
    """Return Python code without its comments; code that is not Python, as it is."""
    lines = code.splitlines(keepends=True)
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column] + "\n"
    except (tokenize.TokenError, SyntaxError):
        return code
    return "".join(lines)


def _depend(env: BuildEnvironment, files: list[Path]) -> None:
    for file in files:
        env.note_dependency(str(file))


def _check_prose(doctree: nodes.document) -> Iterator[tuple[int, str]]:
    for quote in doctree.findall(nodes.block_quote):
        if isinstance(quote.parent, nodes.block_quote) and isinstance(quote.parent.parent, nodes.block_quote):
            yield _line(quote), "a bare `>>>` is a quotation to Markdown, and does not run: write a {doctest} block"
    for text in doctree.findall(nodes.Text):
        if ">>>" in text and not isinstance(text.parent, nodes.literal | nodes.FixedTextElement | nodes.comment):
            yield _line(text), "a bare `>>>` in a paragraph does not run: write a {doctest} block"
    for raw in doctree.findall(nodes.raw):
        if _RAW_CODE.search(raw.astext()):
            yield _line(raw), "raw HTML that shows code is not proven"


def _check_form(doctree: nodes.document, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield what a reader would miss, and what no parser reports."""
    for image in doctree.findall(nodes.image):
        if not image.get("alt"):
            yield _line(image), "an image without an alternative text, for those who cannot see it"
    for entry in doctree.findall(nodes.definition_list_item):
        if isinstance(entry.parent.parent, addnodes.glossary) and not entry[-1].astext():
            term = entry[0].astext()
            yield where.find(lines, [term], _line(entry)), f"`{term}` has no definition"
    titled = [node for node in doctree.children if isinstance(node, nodes.section)]
    for section in titled[1:]:
        yield _line(section), f"a second title, `{section[0].astext()}`: a page has one, and sections below it"


def _line(node: nodes.Node) -> int:
    current: nodes.Node | None = node
    while current is not None:
        if current.line:
            return current.line
        current = current.parent
    return 1


def _note_mentions(doctree: nodes.document, docname: str, env: BuildEnvironment) -> None:
    configuration, mentions = configuration_of(env.config), page(env, docname).mentions
    for literal in doctree.findall(nodes.literal):
        text = literal.astext()
        if _PATH.fullmatch(text) and configuration.covers(configuration.mentioned, text):
            # Build outputs do not exist in a fresh clone.
            built = configuration.built
            if not (configuration.covers(built, text) or any(fnmatch(text, pattern) for pattern in built)):
                mentions.add((text, _line(literal)))


def _check_site(app: Sphinx, env: BuildEnvironment) -> None:
    """Check the whole site. It runs in every build, even when no page has changed."""
    root = root_of(app.config)
    marked, faults = regions.scan(root, configuration_of(app.config).sources)
    shown = {listing.region for record in pages(env).values() for listing in record.shown}
    for fault in faults:
        logger.warning(fault.message, location=f"{root / fault.path}:{fault.line}", type="weaver", subtype="marker")
    for name, region in sorted(marked.items()):
        if name not in shown:
            logger.warning(
                "no page shows region `%s`",
                name,
                location=f"{root / region.path}:{region.marker}",
                type="weaver",
                subtype="unshown",
            )
    for docname, record in sorted(pages(env).items()):
        for path, line in sorted(record.mentions):
            if not (root / path).exists():
                report(docname, line, f"`{path}` is named, but is not in the repository", "mention")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the two checks."""
    app.connect("doctree-read", _check_page)
    app.connect("env-updated", _check_site)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
