"""Writes the report as a self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from accelerator_conformance.isolation import Outcome
from accelerator_conformance.report import OUTCOMES, Check, Report, Score, chapter_place

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1c1917; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 2rem; }
th, td { text-align: left; padding: .35rem .75rem; border-bottom: 1px solid #e7e5e4; vertical-align: top; }
td.count, th.count { text-align: right; font-variant-numeric: tabular-nums; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow-x: auto; background: #f5f5f4; padding: .75rem; }
.badge { display: inline-flex; border-radius: .3rem; overflow: hidden; margin: .2rem; font-size: 14px; color: #fff; }
.badge span { padding: .1rem .5rem; background: #44403c; }
.badge .whole { background: #166534; } .badge .part { background: #9a3412; } .badge .none { background: #57534e; }
.passed { color: #166534; } .failed, .crashed, .hung { color: #991b1b; font-weight: 600; }
"""


def file(report: Report) -> Path:
    """The path of the page."""
    return report.folder / "report.html"


def write(report: Report, guide: str) -> None:
    """Writes the page. With ``guide``, the address of the guide's chapters, it links to them. Throws: `OSError`."""
    device = escape(report.run["device"])
    parts = [f"<h1>Accelerator conformance: {device}</h1>", f"<p>{run_line(report.run)}</p>"]
    if report.fault:
        parts.append(f"<h2 class='failed'>The backend cannot be asked</h2><pre>{escape(report.fault)}</pre>")
    parts += ["<p>", *map(_badge, report.scores()), "</p>", _scores(report)]
    parts.append("<h2>What fails</h2>")
    parts += [_failure(check, outcome, guide) for check, outcome in report.ended("failed", "crashed", "hung")] or [
        "<p>Nothing.</p>"
    ]
    parts += ["<h2>All checks</h2>", _all(report)]
    head = f"<meta charset='utf-8'><title>Accelerator conformance: {device}</title><style>{STYLE}</style>"
    text = f"<!doctype html><html lang='en'><head>{head}</head><body><main>{''.join(parts)}</main></body></html>\n"
    file(report).write_text(text, encoding="utf-8")


def run_line(run: Mapping[str, str]) -> str:
    """What was run, and when."""
    return ", ".join(f"{escape(key)} {escape(value)}" for key, value in run.items() if value)


def chapter_link(chapter: str, guide: str) -> str:
    """The name of a chapter of the guide, as a link if the address of the chapters is known."""
    name = escape(chapter)
    place = chapter_place(chapter, guide)
    return f"<a href='{escape(place)}'>{name}</a>" if place else name


def _badge(score: Score) -> str:
    kind = "none" if score.percent is None else "whole" if score.percent == 100 else "part"
    shown = "not asked" if score.percent is None else f"{score.percent} %"
    return f"<span class='badge'><span>{escape(score.area)}</span><span class='{kind}'>{shown}</span></span>"


def _scores(report: Report) -> str:
    rows = ["<th>area</th>" + "".join(f"<th class='count'>{name}</th>" for name in OUTCOMES)]
    for score in report.scores():
        cells = "".join(f"<td class='count'>{score.counts[outcome] or ''}</td>" for outcome in OUTCOMES)
        rows.append(f"<td>{escape(score.area)}</td>{cells}")
    return _table(rows)


def _failure(check: Check, outcome: Outcome, guide: str) -> str:
    cure = chapter_link(check.chapter, guide)
    return (
        f"<h3 id='{escape(check.name)}'><code>{escape(check.name)}</code></h3>"
        f"<p>{escape(check.asks)}<br><span class='{outcome.outcome}'>{outcome.outcome}</span>: {escape(outcome.reason)}"
        f"<br>The cure is in the chapter {cure} of the guide.</p>"
        f"<details><summary>all that is known</summary><pre>{escape(outcome.detail)}</pre></details>"
    )


def _all(report: Report) -> str:
    rows = ["<th>check</th><th>asks</th><th>level</th><th>outcome</th>"]
    for check, outcome in report.results.values():
        ended = f"<span class='{outcome.outcome}'>{outcome.outcome}</span>"
        why = f": {escape(outcome.reason)}" if outcome.outcome == "not offered" else ""
        rows.append(
            f"<td><code>{escape(check.name)}</code></td><td>{escape(check.asks)}</td>"
            f"<td>{check.level}</td><td>{ended}{why}</td>"
        )
    return _table(rows)


def _table(rows: list[str]) -> str:
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
