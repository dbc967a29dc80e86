"""All checks on one self-contained sheet, to be ticked by hand or filled in from a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from textwrap import shorten

from accelerator_conformance.checks import LEVELS
from accelerator_conformance.isolation import Outcome
from accelerator_conformance.page import chapter_link, run_line
from accelerator_conformance.report import Check, Score, tally

TICKED_ONE_BY_ONE = 40  # parameters of one question; of more, only their number is shown
SHOWN_OF_A_REASON = 110
REASONS = 2  # of one question
ROOM = 8  # for reasons, on a printed page at the usual font size
BAD = ("failed", "crashed", "hung")

# A page that embeds the poster sets these colors itself.
COLOURS = """
:root { --poster-ink: #1c1917; --poster-paper: #fff; --poster-line: #a8a29e; --poster-muted: #57534e;
  --poster-link: #9a3412; --poster-good: #166534; --poster-bad: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --poster-ink: #e7e5e4; --poster-paper: #171513; --poster-line: #57534e;
  --poster-muted: #a8a29e; --poster-link: #fdba74; --poster-good: #86efac; --poster-bad: #fca5a5; } }
body { margin: 0; background: var(--poster-paper); } body .poster { padding: 1rem; }
@page { size: A3 landscape; margin: 7mm; }
@media print {
  :root { --poster-ink: #000; --poster-paper: #fff; --poster-line: #78716c; --poster-muted: #44403c;
    --poster-link: #7c2d12; --poster-good: #14532d; --poster-bad: #991b1b; }
  body .poster { padding: 0; font-size: 6.8pt; } body .poster .areas { columns: 7; column-gap: 3mm; }
  .poster .why { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden; }
  body .poster.crowded { font-size: 5.7pt; } .poster.crowded .why { -webkit-line-clamp: 1; }
}
"""
STYLE = """
.poster { color: var(--poster-ink); font: .875rem/1.3 system-ui, sans-serif; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
.poster h1 { font-size: 1.6em; margin: 0; } .poster p { margin: .2em 0; }
.poster header { margin-bottom: .8em; }
.poster .legend, .poster .levels { display: flex; flex-wrap: wrap; gap: .2em 1.4em; }
.poster .areas { columns: 19rem; column-gap: 1rem; }
.poster .area { border: 1px solid var(--poster-line); border-radius: .4em; padding: .3em .5em; margin: 0 0 .7em;
  -webkit-box-decoration-break: clone; box-decoration-break: clone; }
.poster h2 { display: flex; justify-content: space-between; align-items: baseline; font-size: 1.15em;
  padding: 0; margin: 0 0 .2em;
  break-after: avoid; border-bottom: 1px solid var(--poster-line); }
.poster .score { font-variant-numeric: tabular-nums; font-weight: 400; font-size: .9em; }
.poster ul { list-style: none; margin: 0; padding: 0; }
.poster .box { display: flex; gap: .35em; break-inside: avoid; margin: .3em 0; }
.poster .box > div { flex: 1; min-width: 0; overflow-wrap: anywhere; }
.poster .parameters { display: flex; flex-wrap: wrap; gap: .05em .7em; }
.poster .parameters li { white-space: nowrap; margin: 0; }
.poster .mono { font-family: ui-monospace, monospace; font-size: .93em; }
.poster a { color: var(--poster-link); } .poster .chapter { font-style: italic; white-space: nowrap; }
.poster svg { width: 1em; height: 1em; vertical-align: -.13em; flex: none; fill: none; stroke: currentColor; }
.poster svg.level { color: var(--poster-muted); margin-top: .15em; } .poster .box > svg { margin-top: .15em; }
.poster .count { color: var(--poster-muted); }
.poster .passed > svg:first-child { color: var(--poster-good); }
.poster .bad > svg:first-child, .poster .why { color: var(--poster-bad); } .poster .why { font-size: .93em; }
"""


def _bars(count: int) -> str:
    """Three bars, of which the first `count` are filled."""
    filled = ["currentColor"] * count + ["none"] * (len(LEVELS) - count)
    return "".join(
        f'<rect x="{1 + 5 * bar}" y="{11 - 4 * bar}" width="4" height="{4 + 4 * bar}" fill="{fill}"/>'
        for bar, fill in enumerate(filled)
    )


# Marks of outcomes and levels, which differ in shape so that they can be told apart in grayscale.
_SQUARE = '<rect x="1" y="1" width="14" height="14" rx="2" stroke-width="1.4"/>'
MARKS = {
    "not run": _SQUARE,
    "passed": f'{_SQUARE}<path d="M4 8l3 4 5-8" stroke-width="2.4"/>',
    "failed": f'{_SQUARE}<path d="M4 4l8 8M12 4l-8 8" stroke-width="2.4"/>',
    "not offered": f'{_SQUARE}<path d="M4 8h8" stroke-width="2.4"/>',
    **{level: _bars(number) for number, level in enumerate(LEVELS, 1)},
}
MEANINGS = {
    "minimal": "minimal: every program needs it",
    "usable": "usable: programs in use need it",
    "complete": "complete: the whole operator database",
}

Result = tuple[Check, Outcome | None]  # None: not run


@dataclass(frozen=True)
class Poster:
    """The checks in the order of their areas, with their outcomes if there is a report, which is of `run`."""

    results: Sequence[Result]
    run: Mapping[str, str]
    fault: str
    guide: str

    def write(self, file: Path) -> None:
        """Writes the sheet. The content of its ``main`` can be embedded in another page. Throws: `OSError`."""
        title = f"Accelerator conformance: {self.run.get('device', '')}" if self.run else "Accelerator conformance"
        head = (
            "<meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
            f"<title>{escape(title)}</title><style>{COLOURS}</style>"
        )
        body = f"<body><main>{self._main(title)}</main></body>"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"<!doctype html>\n<html lang='en'><head>{head}</head>\n{body}</html>\n", encoding="utf-8")

    def _main(self, title: str) -> str:
        marks = "".join(
            f"<symbol id='poster-{_id(name)}' viewBox='0 0 16 16'>{drawn}</symbol>" for name, drawn in MARKS.items()
        )
        areas = groupby(self.results, lambda result: result[0].name.partition("/")[0])
        panels = "\n".join(self._panel(area, list(results)) for area, results in areas)
        fault = (
            f"<p class='why'>The backend cannot be asked: {escape(shorten(self.fault, 300))}</p>" if self.fault else ""
        )
        kind = "poster crowded" if panels.count("<p class='why'>") > ROOM else "poster"
        return (
            f"<style>{STYLE}</style><div class='{kind}'><svg hidden style='display: none'>{marks}</svg>\n"
            f"<header><h1>{escape(title)}</h1>{self._run()}{fault}{self._levels()}{self._legend()}</header>\n"
            f"<div class='areas'>\n{panels}\n</div></div>\n"
        )

    def _run(self) -> str:
        if self.run:
            return f"<p>{run_line(self.run)}</p>"
        return "<p>device ____________________ PyTorch ____________ driver ____________ date ____________</p>"

    def _levels(self) -> str:
        parts = []
        for level in LEVELS:
            if of_level := [result for result in self.results if result[0].level == level]:
                score = self._score(of_level)
                parts.append(f"<span class='{level}'>{_mark(level, 'level')} {MEANINGS[level]}, {score}</span>")
        return f"<p class='levels'>{''.join(parts)}</p>"

    def _legend(self) -> str:
        if not self.run:
            return ""
        meanings = {
            "passed": "passed",
            "failed": "failed, crashed or hung",
            "not offered": "not offered",
            "not run": "not run",
        }
        shown = (f"<span class='{_kind(name)}'>{_mark(name)} {meaning}</span>" for name, meaning in meanings.items())
        return f"<p class='legend'>{''.join(shown)}</p>"

    def _score(self, results: Sequence[Result]) -> str:
        """How many checks passed, of those that apply; a blank to fill in if there is no report."""
        if not self.run:
            return f"<span class='score'>____ / {len(results)}</span>"
        (score,) = tally(("", outcome) for _, outcome in results if outcome) or [Score("", {})]
        missing = len(results) - sum(score.counts.values())
        percent = "" if score.percent is None else f", {score.percent} %"
        told = f"{score.counts.get('passed', 0)} of {score.asked}{percent}" if score.counts else "not run"
        if score.counts and missing:
            told += f", {missing} not run"
        return f"<span class='score'>{told}</span>"

    def _panel(self, area: str, results: Sequence[Result]) -> str:
        # One box for a question or, if its parameters have several levels, for each of these.
        questions: dict[tuple[int, str], list[Result]] = {}
        for check, outcome in results:
            key = LEVELS.index(check.level), check.name.partition("[")[0]
            questions.setdefault(key, []).append((check, outcome))
        boxes = "\n".join(self._box(asked) for _, asked in sorted(questions.items(), key=lambda item: item[0][0]))
        head = f"<h2><span>{escape(area)}</span>{self._score(results)}</h2>"
        return f"<section class='area'>{head}<ul>\n{boxes}\n</ul></section>"

    def _box(self, results: Sequence[Result]) -> str:
        check = results[0][0]
        name = check.name.partition("[")[0]
        chapter = f"<span class='chapter'>{chapter_link(check.chapter, self.guide)}</span>"
        outcome = _together([outcome for _, outcome in results])
        single = len(results) == 1 or len(results) > TICKED_ONE_BY_ONE
        inner = f"<span class='asks'>{_prose(check.asks)}</span> {chapter}"
        if len(results) > TICKED_ONE_BY_ONE:
            score = f": {self._score(results)}" if self.run else ""
            inner += f" <span class='count'>{len(results):,} checks{score}</span>"
        elif not single:
            inner += f"<ul class='parameters'>{''.join(map(_parameter, results))}</ul>"
        inner += "".join(f"<p class='why'>{escape(reason)}</p>" for reason in _reasons(results))
        tick = _mark(outcome) if single else ""
        kind = _kind(outcome) if single else ""
        title = escape(name + (f": {_title(results[0][1])}" if len(results) == 1 and results[0][1] else ""))
        marks = tick + _mark(check.level, "level")
        return f"<li class='box {check.level} {kind}' title='{title}'>{marks}<div>{inner}</div></li>"


def _parameter(result: Result) -> str:
    check, outcome = result
    label = check.name.partition("[")[2].removesuffix("]").replace("torch.", "")
    ended = _together([outcome])
    title = f" title='{escape(_title(outcome))}'" if outcome else ""
    return f"<li class='{_kind(ended)}'{title}>{_mark(ended)} <span class='mono'>{escape(label)}</span></li>"


def _together(outcomes: Iterable[Outcome | None]) -> str:
    """What one mark shows for several checks: the worst outcome, where "not run" is worse than "passed"."""
    ended = {outcome.outcome if outcome else "not run" for outcome in outcomes}
    if ended & set(BAD):
        return "failed"
    return next(name for name in ("not run", "passed", "not offered") if name in ended)


def _title(outcome: Outcome) -> str:
    return f"{outcome.outcome}: {outcome.reason}" if outcome.reason else outcome.outcome


def _reasons(results: Sequence[Result]) -> list[str]:
    """Why checks failed, each reason once."""
    told = [_title(outcome) for _, outcome in results if outcome and outcome.outcome in BAD]
    reasons = [shorten(reason, SHOWN_OF_A_REASON, placeholder=" ...") for reason in dict.fromkeys(told)]
    rest = len(reasons) - REASONS
    return [*reasons[:REASONS], f"and {rest} more reasons, which are in the report"] if rest > 0 else reasons


def _mark(name: str, kind: str = "") -> str:
    attributes = f" class='{kind}'" if kind else ""
    return f"<svg{attributes} role='img' aria-label='{name}'><use href='#poster-{_id(name)}'/></svg>"


def _kind(ended: str) -> str:
    return "bad" if ended == "failed" else _id(ended)


def _id(name: str) -> str:
    return name.replace(" ", "-")


def _prose(sentence: str) -> str:
    return re.sub(r"`([^`]+)`", r"<span class='mono'>\1</span>", escape(sentence, quote=False))
