"""``{trace-picture}``: a trace of ``torch.profiler``, recorded when the page is written and drawn into it.

::

    ```{trace-picture} examples/profiler_train.py
    :range: ProfilerStep
    :alt: What the picture shows, in words.

    A caption.
    ```

The script gets the name of the file to write a trace in Chrome's format to. Of the ranges whose name begins with the
given one, the shortest is drawn, from its start on the host until its last work on the device has ended. The picture
uses the theme's colors, as diagrams do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective
from weaver.pages.repository import report, root_of
from weaver.pages.where import line_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from docutils.nodes import Node
    from sphinx.application import Sphinx

Event = dict[str, Any]

WIDTH, LEFT, BAR, GAP, TOP = 760, 104, 15, 3, 8
DEVICE = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}
CALL = "privateuse1_runtime"
ACCENT, INK = "var(--guide-rule, #c2410c)", "currentColor"
LETTER = 5.6  # the width of a letter at the size of the labels
LEVELS = 2  # how deep nested operators are drawn


class trace_picture(nodes.General, nodes.Element):  # noqa: N801 - docutils names nodes like this
    """A placeholder for the picture until the page is written."""


class TracePicture(SphinxDirective):
    """A figure whose picture is a trace that the build records."""

    has_content = True
    required_arguments = 1
    option_spec: ClassVar[dict[str, Callable[[str], Any]]] = {
        "alt": directives.unchanged_required,
        "range": directives.unchanged_required,
    }

    def run(self) -> list[Node]:
        """Return the figure with a placeholder."""
        script = self.arguments[0]
        line = line_of(self.env, self.env.docname, [self.block_text.splitlines()[0]], self.lineno)
        if missing := [f":{name}:" for name in self.option_spec if name not in self.options]:
            text = f"trace-picture {script}: {' and '.join(missing)} must be given"
            report(self.env.docname, line, text, "trace")
            return []
        self.env.note_dependency(str(root_of(self.config) / script))
        node = trace_picture("", script=script, range=self.options["range"], alt=self.options["alt"])
        node.line = line
        figure = nodes.figure("", node, classes=["diagram"])
        caption = self.parse_content_to_nodes()
        if caption:
            figure += nodes.caption("", "", *caption[0].children)
        return [figure]


@dataclass
class Row:
    """One line of the picture."""

    label: str
    events: list[Event] = field(default_factory=list)
    space: float = 0  # above it
    y: float = 0


def _show(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for node in list(doctree.findall(trace_picture)):
        shown: list[Node] = []
        if app.builder.format == "html":
            try:
                events = record(root_of(app.config), node["script"])
                shown.append(nodes.raw("", draw(events, node["range"], node["alt"]), format="html"))
            except (LookupError, ValueError, RuntimeError) as error:
                report(docname, node.line, f"trace-picture {node['script']}: {error}", "trace")
        node.replace_self(shown)


def record(root: Path, script: str) -> list[Event]:
    """Runs the script and returns the events of its trace.

    Raises:
        RuntimeError: if the script fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        environment = {**os.environ, "PYTHONPATH": str(root), "OPENREG_LAUNCH": "auto"}
        ran = subprocess.run(
            [sys.executable, script, str(file)],
            cwd=root, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ran.returncode:
            raise RuntimeError((ran.stdout + ran.stderr).strip())
        events: list[Event] = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    return events


def draw(events: list[Event], name: str, alt: str) -> str:
    """Draws one range of a trace as an SVG.

    Raises:
        LookupError: if the trace has no such range, or the range has no work on a device.
    """
    begin, end, inside = _of_range([event for event in events if event["ph"] == "X"], name)
    rows = _rows(events, inside)
    scale = (WIDTH - LEFT - 4) / (end - begin)

    def x(time: float) -> float:
        return LEFT + (time - begin) * scale

    y = float(TOP)
    for row in rows:
        y += row.space
        row.y = y
        y += BAR + GAP
    parts = [part for row in rows for part in _row(row, x)]
    parts += _arrows(rows, x) + _axis(begin, end, y, x)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 22:.0f}" role="img" '
        f'aria-label="{escape(" ".join(alt.split()))}" font-family="system-ui, Segoe UI, Roboto, Helvetica, Arial, '
        f'sans-serif" font-size="10.5">\n{body}\n</svg>'
    )


def _of_range(events: list[Event], name: str) -> tuple[float, float, list[Event]]:
    ranges = [event for event in events if event.get("cat") == "user_annotation" and event["name"].startswith(name)]
    if not ranges:
        raise LookupError(f"the trace has no range {name!r}")
    chosen = min(ranges, key=lambda event: float(event["dur"]))
    begin, end = chosen["ts"], chosen["ts"] + chosen["dur"]
    inside = [event for event in events if begin <= event["ts"] <= end and event.get("cat") in _drawn()]
    queued = {event["args"]["correlation"] for event in inside if event["cat"] == CALL}
    on_device = [event for event in events if event.get("cat") in DEVICE and event["args"].get("correlation") in queued]
    if not on_device:
        raise LookupError(f"nothing ran on a device in {chosen['name']!r}")
    end = max([end, *(event["ts"] + event["dur"] for event in on_device)])
    return begin, end, [event for event in inside if event["cat"] not in DEVICE] + on_device


def _drawn() -> set[str]:
    return {"cpu_op", "user_annotation", CALL, *DEVICE}


def _rows(events: list[Event], inside: list[Event]) -> list[Row]:
    """Threads of the host in the order of their first event, each with its driver calls; then the streams."""
    named = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    rows: list[Row] = []
    threads = dict.fromkeys(event["tid"] for event in sorted(inside, key=_begin) if event["cat"] == "cpu_op")
    for number, thread in enumerate(threads):
        own = [event for event in inside if event["tid"] == thread and event["cat"] not in DEVICE]
        operators = [event for event in own if event["cat"] in ("cpu_op", "user_annotation") and _shown(event)]
        for level in range(LEVELS):
            label = ("main thread", "autograd")[min(number, 1)] if level == 0 else ""
            space = 8 if number and level == 0 else 0
            rows.append(Row(label, [event for event in operators if _depth(event, operators) == level], space))
        rows.append(Row("calls", [event for event in own if event["cat"] == CALL]))
    streams = sorted({(event["pid"], event["tid"]) for event in inside if event["cat"] in DEVICE})
    for stream in streams:
        ran = [event for event in inside if event["cat"] in DEVICE and (event["pid"], event["tid"]) == stream]
        rows.append(Row(named.get(stream, "stream").partition(" (")[0], ran, 18 if stream == streams[0] else 0))
    return rows


def _begin(event: Event) -> float:
    return float(event["ts"])


def _shown(event: Event) -> bool:
    return not event["name"].startswith("ProfilerStep")


def _depth(event: Event, among: list[Event]) -> int:
    begin, end = event["ts"], event["ts"] + event["dur"]
    return sum(
        other is not event
        and other["ts"] <= begin
        and end <= other["ts"] + other["dur"]
        and other["dur"] > event["dur"]
        for other in among
    )


def _row(row: Row, x: Callable[[float], float]) -> list[str]:
    parts = [
        f'<text fill="{INK}" x="{LEFT - 8}" y="{row.y + 11}" text-anchor="end" fill-opacity="0.75">'
        f"{escape(row.label)}</text>"
    ]
    for event in row.events:
        left, width = x(event["ts"]), max(event["dur"] * (x(1) - x(0)), 0.8)
        on_device = event["cat"] in DEVICE
        color = ACCENT if on_device else INK
        opacity = {"kernel": 0.75, CALL: 0.55}.get(event["cat"], 0.28 if on_device else 0.12)
        title = f"{event['name']}: {event['dur']:.1f} us"
        parts.append(
            f'<rect x="{left:.2f}" y="{row.y:.1f}" width="{width:.2f}" height="{BAR}" rx="1.5" style="fill: {color}" '
            f'fill-opacity="{opacity}"><title>{escape(title)}</title></rect>'
        )
        label = event["name"].removeprefix("aten::").removeprefix("autograd::engine::evaluate_function: ")
        if event["cat"] != CALL and len(label) * LETTER < width - 4:
            parts.append(
                f'<text fill="{INK}" x="{left + width / 2:.2f}" y="{row.y + 11}" text-anchor="middle" '
                f'pointer-events="none">{escape(label)}</text>'
            )
    return parts


def _arrows(rows: list[Row], x: Callable[[float], float]) -> list[str]:
    """Draws an arrow from each call to the work that it queued."""
    calls = {
        event["args"]["correlation"]: (x(event["ts"]), row.y + BAR)
        for row in rows
        for event in row.events
        if event["cat"] == CALL
    }
    parts = []
    for row in rows:
        for event in row.events:
            origin = calls.get(event["args"].get("correlation")) if event["cat"] in DEVICE else None
            if origin is None:
                continue
            left, top = origin
            right, middle = x(event["ts"]), (top + row.y) / 2
            parts.append(
                f'<path d="M{left:.2f} {top:.1f}C{left:.2f} {middle:.1f} {right:.2f} {middle:.1f} {right:.2f} '
                f'{row.y:.1f}" fill="none" style="stroke: {ACCENT}" stroke-width="0.7" stroke-opacity="0.45" '
                f'pointer-events="none"/>'
            )
    return parts


def _axis(begin: float, end: float, y: float, x: Callable[[float], float]) -> list[str]:
    step = next(size for size in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10**9) if (end - begin) / size <= 8)
    parts = []
    for number in range(int((end - begin) / step) + 1):
        place = x(begin + number * step)
        text = f"{number * step} us" if number else "0"
        parts.append(
            f'<path d="M{place:.2f} {TOP}V{y:.1f}" style="stroke: {INK}" stroke-width="0.6" stroke-opacity="0.15"/>'
            f'<text fill="{INK}" x="{place:.2f}" y="{y + 14:.1f}" fill-opacity="0.75" '
            f'text-anchor="{"middle" if number else "start"}">{text}</text>'
        )
    return parts


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_node(trace_picture)
    app.add_directive("trace-picture", TracePicture)
    app.connect("doctree-resolved", _show)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
