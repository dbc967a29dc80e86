"""The strict ``literalinclude``: the same name and plain syntax, but it shows exactly what was requested, or fails.

Stock Sphinx matches markers by substring, takes the first of several matches, and continues to the end of the file
when the second marker is missing: a page then silently shows other lines than its author intended.
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from weaver.pages import lock
from weaver.pages.links import link
from weaver.pages.records import InstalledRegion, page
from weaver.pages.repository import Source, configuration_of, page_source, report, root_of
from weaver.pages.where import line_of
from weaver.sources import installed, regions
from weaver.sources.listing import Listing

if TYPE_CHECKING:
    from collections.abc import Callable

    from docutils.nodes import Node
    from sphinx.application import Sphinx

_MARKERS = {
    "start-after": re.compile(r"LITERALINCLUDE START: (\S+)"),
    "end-before": re.compile(r"LITERALINCLUDE END: (\S+)"),
}
_REFUSED = {
    "append": "it shows text that stands in no source",
    "diff": "it shows text that stands in no source",
    "emphasize-lines": "numbers go stale; use :emphasize-text:",
    "language": "the name of the file says it (weaver/sources/regions.py)",
    "lines": "numbers go stale; mark a region",
    "lineno-start": "the numbers shown are those of the file",
    "prepend": "it shows text that stands in no source",
}


@dataclass(frozen=True)
class Excerpt:
    """The lines that a listing shows: ``first`` to ``last`` of its source; ``region`` when they are a marked region."""

    first: int
    last: int
    region: str | None = None


class LiteralInclude(SphinxDirective):
    """Show a marked region, a Python object or the whole of a source file, or a region of an installed file."""

    has_content = False
    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Callable[[str], Any]]] = {
        "caption": directives.unchanged_required,
        "class": directives.class_option,
        "dedent": directives.flag,
        "emphasize-text": directives.unchanged_required,
        "end-at": directives.unchanged_required,
        "end-before": directives.unchanged_required,
        "lineno-match": directives.flag,
        "linenos": directives.flag,
        "name": directives.unchanged,
        "pyobject": directives.unchanged_required,
        "start-after": directives.unchanged_required,
        "start-at": directives.unchanged_required,
        **dict.fromkeys(_REFUSED, directives.unchanged),
    }

    def run(self) -> list[Node]:
        """Return the listing and its caption; report a fault and show nothing."""
        try:
            return [self._listing()]
        except (LookupError, SyntaxError, UnicodeError) as error:
            line = line_of(self.env, self.env.docname, [self.block_text.splitlines()[0]], self.lineno)
            report(self.env.docname, line, f"literalinclude {self.arguments[0]}: {error}", "literalinclude")
            return []

    def _listing(self) -> Node:
        for option in self.options:
            if option in _REFUSED:
                raise LookupError(f":{option}: is refused: {_REFUSED[option]}")
        source = page_source(self.env, self.env.docname, self.arguments[0])
        self.env.note_dependency(str(source.file))
        lines = regions.read_lines(source.file)
        excerpt = self._installed_excerpt(lines) if source.installed else self._excerpt(source, lines)
        shown = lines[excerpt.first - 1 : excerpt.last]
        if not any(line.strip() for line in shown):
            raise LookupError("the selection has no text")
        for number, text in enumerate(shown, start=excerpt.first):
            if regions.is_marker(text):
                raise LookupError(f"the marker in line {number} would be shown; select a region, or use whole-sources")
        text = textwrap.dedent("\n".join(shown))
        if source.installed:
            self._check_lock(text)
        block = nodes.literal_block(text, text, source=str(source.file), linenos=True)
        block["language"] = regions.language_of(source.file) or "text"
        block["highlight_args"] = {"linenostart": excerpt.first, "hl_lines": self._emphasized(text.splitlines())}
        block["classes"] += self.options.get("class", [])
        block["weaver_source"] = source
        # A compiler has accepted the code: syntax that the highlighter does not know is not a fault of the page.
        block["force"] = True
        self.set_source_info(block)
        wrapper = self._captioned(block, source, excerpt)
        self._record(wrapper, source, excerpt)
        return wrapper

    def _excerpt(self, source: Source, lines: list[str]) -> Excerpt:
        used = {"start-after", "end-before", "start-at", "end-at", "pyobject"} & set(self.options)
        if used == {"start-after", "end-before"}:
            return self._marked(source, lines)
        if used == {"pyobject"}:
            return _python_object(lines, self.options["pyobject"])
        if used:
            raise LookupError(
                f"select by :start-after: and :end-before: with the two markers of one region, or by :pyobject:; "
                f"given: {', '.join(f':{name}:' for name in sorted(used))}"
            )
        return Excerpt(1, len(lines))

    def _marked(self, source: Source, lines: list[str]) -> Excerpt:
        names = []
        for option, pattern in _MARKERS.items():
            match = pattern.fullmatch(self.options[option].strip().strip("\"'"))
            if match is None:
                raise LookupError(f":{option}: must be a whole marker, as in `{pattern.pattern[:-5]}region-name`")
            names.append(match[1])
        if names[0] != names[1]:
            raise LookupError(f"the options name two regions, `{names[0]}` and `{names[1]}`")
        found, faults = regions.parse(source.label, lines)
        chosen = [region for region in found if region.name == names[0]]
        if len(chosen) == 1:
            return Excerpt(chosen[0].first, chosen[0].last, names[0])
        if chosen:
            raise LookupError(
                f"region `{names[0]}` is marked {len(chosen)} times, in lines "
                f"{', '.join(str(region.marker) for region in chosen)}"
            )
        wrong = [f"{fault.path}:{fault.line}: {fault.message}" for fault in faults if f"`{names[0]}`" in fault.message]
        raise LookupError("; ".join(wrong) or self._no_region(source, names[0], found))

    def _no_region(self, source: Source, name: str, found: list[regions.Region]) -> str:
        elsewhere, _ = regions.scan(root_of(self.config), configuration_of(self.config).sources)
        if name in elsewhere:
            return f"region `{name}` is in {elsewhere[name].path}, not in {source.label}"
        return f"no region `{name}`; {source.label} has: {', '.join(region.name for region in found) or 'none'}"

    def _installed_excerpt(self, lines: list[str]) -> Excerpt:
        used = {"start-after", "end-before", "start-at", "end-at", "pyobject"} & set(self.options)
        if used == {"pyobject"}:
            return _python_object(lines, self.options["pyobject"])
        if "start-at" not in used or used - {"start-at", "end-at"}:
            raise LookupError("select a part of an installed file by :start-at: and :end-at:, or by :pyobject:")
        return Excerpt(*installed.find_region(lines, self.options["start-at"], self.options.get("end-at")))

    def _check_lock(self, text: str) -> None:
        start = self.options.get("start-at") or f"pyobject {self.options['pyobject']}"
        region = InstalledRegion(self.arguments[0], start, self.options.get("end-at", ""), installed.digest(text))
        record = page(self.env, self.env.docname)
        record.installed_regions.add(region)
        record.installed_files.add(self.arguments[0])
        configuration = configuration_of(self.config)
        file = lock.file(configuration)
        self.env.note_dependency(str(file))
        wrong = lock.check(configuration, lock.read(file), region) if self.config.weaver_lock_check else None
        if wrong:
            raise LookupError(wrong)

    def _emphasized(self, shown: list[str]) -> list[int]:
        numbers: set[int] = set()
        for wanted in re.split(r"\n|;;", self.options.get("emphasize-text", "")):
            if wanted.strip():
                found = [number for number, line in enumerate(shown, start=1) if wanted.strip() in line]
                if not found:
                    raise LookupError(f":emphasize-text: `{wanted.strip()}` is in no line of the listing")
                numbers.update(found)
        return sorted(numbers)

    def _record(self, wrapper: nodes.container, source: Source, excerpt: Excerpt) -> None:
        record = page(self.env, self.env.docname)
        record.listings += 1
        if not source.installed:
            listing = Listing(source.label, excerpt.first, excerpt.last, excerpt.region or "")
            record.shown.append(listing)
            wrapper["weaver_listing"] = listing

    def _at_home(self, excerpt: Excerpt) -> nodes.reference:
        """Return the link to the same lines in the repository of the installed package."""
        configuration = configuration_of(self.config)
        uri = installed.home(configuration.installed, self.arguments[0], excerpt.first, excerpt.last)
        text = f"in {installed.title(configuration)}'s repository"
        return nodes.reference(text, text, refuri=uri, internal=False, classes=["home"])

    def _captioned(self, block: nodes.literal_block, source: Source, excerpt: Excerpt) -> nodes.container:
        caption = nodes.caption()
        if "caption" in self.options:
            title, messages = self.parse_inline(self.options["caption"], lineno=self.lineno)
            caption += [nodes.inline("", "", *title, classes=["listing-title"]), *messages, nodes.Text(" ")]
        lines = f"{excerpt.first}-{excerpt.last}" if excerpt.last > excerpt.first else str(excerpt.first)
        where = nodes.inline("", "", link(source, f"{source.label}:{lines}", excerpt.first, "provenance"))
        if source.home:
            where += [nodes.Text(", "), self._at_home(excerpt)]
        caption += where
        wrapper = nodes.container("", caption, block, literal_block=True, classes=["literal-block-wrapper", "listing"])
        self.set_source_info(caption)
        name = f"region-{excerpt.region}"
        if excerpt.region and name not in self.state.document.ids:
            wrapper["ids"].append(name)
            self.state.document.ids[name] = wrapper
        self.add_name(wrapper)
        return wrapper


def _python_object(lines: list[str], name: str) -> Excerpt:
    """Find ``name`` (``function``, ``Class`` or ``Class.method``) with its decorators. Throws: ``LookupError``."""
    body: list[ast.stmt] = ast.parse("\n".join(lines)).body
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = [node for node in body if isinstance(node, kinds) and node.name == part]
        if len(found) != 1:
            raise LookupError(f":pyobject: {name} is defined {len(found)} times, and must be defined once")
        body = found[0].body
    first = min([found[0].lineno, *[decorator.lineno for decorator in found[0].decorator_list]])
    return Excerpt(first, found[0].end_lineno or first)


def setup(app: Sphinx) -> dict[str, bool]:
    """Replace the stock directive by the strict one."""
    app.add_directive("literalinclude", LiteralInclude, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
