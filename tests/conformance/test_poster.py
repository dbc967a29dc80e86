"""The poster: every check once, marks from a report, and reports that cannot fill it in."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kit import Ran, collected, run_kit, run_poster

# All areas except the operators, because PyTorch's database of them takes seconds to import.
AREAS = "--area=device,module,hooks,guard,memory,tensors,streams,events,random,serialization,autograd,amp,models"
SETUP = [
    f"--setup=tests.conformance.broken.{name}" for name in ("no_pinned_hook", "no_is_initialized", "three_kernels")
]


class Sheet(HTMLParser):
    """The boxes of a poster, by the name of their check: level, marks and text."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.text = file.read_text(encoding="utf-8")
        self.boxes: dict[tuple[str, str], list[str]] = {}
        self.words: dict[tuple[str, str], str] = {}
        self.links: list[str] = []
        self._box = ("", "")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        kinds = (given.get("class") or "").split()
        if "box" in kinds:
            self._box = ((given["title"] or "").partition(":")[0], kinds[1])
            self.boxes[self._box], self.words[self._box] = [], ""
        elif tag == "svg" and "level" not in kinds and self._box[0]:
            self.boxes[self._box].append(str(given["aria-label"]))
        elif tag == "a":
            self.links.append(given["href"] or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "section":
            self._box = ("", "")

    def handle_data(self, data: str) -> None:
        if self._box[0]:
            self.words[self._box] += data


def test_every_check_has_a_mark_to_tick(tmp_path: Path) -> None:
    poster = run_poster(tmp_path / "poster.html", AREAS)
    assert poster.status == 0, poster.output
    assert f"poster: {tmp_path / 'poster.html'}" in poster.output
    sheet = Sheet(tmp_path / "poster.html")
    asked = Counter(name.partition("[")[0] for name in collected(tmp_path, AREAS))
    assert asked.total() > 200
    assert {name: len(marks) for (name, _), marks in sheet.boxes.items()} == asked
    assert {mark for marks in sheet.boxes.values() for mark in marks} == {"not run"}


def test_thousands_of_samples_are_a_box_for_each_level(tmp_path: Path) -> None:
    run_poster(tmp_path / "poster.html", "--area=operators")
    sheet = Sheet(tmp_path / "poster.html")
    assert [(level, len(marks)) for (_, level), marks in sheet.boxes.items()] == [
        ("minimal", 1),
        ("usable", 1),
        ("complete", 1),
    ]
    counts = [int(text.replace(",", "")) for text in re.findall(r"([\d,]+) checks", "".join(sheet.words.values()))]
    assert sum(counts) == len(collected(tmp_path, "--area=operators"))


def test_the_sheet_needs_no_other_file(tmp_path: Path) -> None:
    run_poster(tmp_path / "poster.html", "--area=hooks")
    text = (tmp_path / "poster.html").read_text(encoding="utf-8")
    assert not re.search(r"<script|<link|\bsrc=|url\(|@import|//", text)
    assert "@page { size: A3 landscape;" in text


def test_levels_differ_in_form(tmp_path: Path) -> None:
    run_poster(tmp_path / "poster.html", "--area=hooks,operators")
    text = (tmp_path / "poster.html").read_text(encoding="utf-8")
    drawn = re.findall(r"<symbol id='poster-(\w[\w-]*)'[^>]*>(.*?)</symbol>", text)
    assert {"minimal", "usable", "complete", "passed", "failed", "not-offered", "not-run"} == {
        name for name, _ in drawn
    }
    assert len({picture for _, picture in drawn}) == len(drawn)
    used = set(re.findall(r"<svg class='level'[^>]*><use href='#poster-(\w+)'", text))
    assert used == {"minimal", "usable", "complete"}


def test_chapters_are_links_where_the_guide_is_known(tmp_path: Path) -> None:
    run_poster(tmp_path / "poster.html", "--area=hooks", "--guide=../guide/")
    assert set(Sheet(tmp_path / "poster.html").links) == {"../guide/hooks.html", "../guide/storage.html"}
    run_poster(tmp_path / "poster.html", "--area=hooks")
    assert Sheet(tmp_path / "poster.html").links == []


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Checks that pass, fail, crash, hang and are not offered."""
    chosen = "pinned or gelu or amax or cumsum or exp or may_have or new_generator"
    folder = tmp_path_factory.mktemp("broken") / "report"
    return run_kit(folder, "--area=hooks,module,autograd", "-k", chosen, "--timeout=15", *SETUP)


def test_marks_say_what_the_report_says(broken: Ran, tmp_path: Path) -> None:
    said = run_poster(tmp_path / "poster.html", AREAS, "--from", str(broken.folder / "report.json"))
    assert said.status == 0, said.output
    sheet = Sheet(tmp_path / "poster.html")
    as_marked = {"passed": "passed", "not offered": "not offered"}
    expected: dict[str, Counter[str]] = {}
    outcomes = {check["name"]: check["outcome"] for check in broken.report["checks"]}
    assert set(outcomes.values()) == {"passed", "failed", "crashed", "hung", "not offered"}
    for name in collected(tmp_path, AREAS):
        mark = as_marked.get(outcomes[name], "failed") if name in outcomes else "not run"
        expected.setdefault(name.partition("[")[0], Counter())[mark] += 1
    assert {name: Counter(marks) for (name, _), marks in sheet.boxes.items()} == expected
    pinned, gradients = (
        sheet.words["hooks/pinned_memory_is_known", "usable"],
        sheet.words["autograd/gradient_of", "minimal"],
    )
    assert "failed: AssertionError: memory that was just pinned says that it is not" in pinned
    assert "crashed: killed by SIGSEGV in string_at" in gradients
    assert "hung: no end within 15 s" in gradients


def test_scores_leave_out_what_was_not_offered_or_not_run(broken: Ran, tmp_path: Path) -> None:
    run_poster(tmp_path / "poster.html", "--area=hooks,module,guard", "--from", str(broken.folder / "report.json"))
    text = (tmp_path / "poster.html").read_text(encoding="utf-8")
    scores = dict(re.findall(r"<h2><span>(\w+)</span><span class='score'>(.*?)</span></h2>", text))
    whole = Counter(name.partition("/")[0] for name in collected(tmp_path, "--area=hooks,module,guard"))
    ended = broken.report["scores"]
    module = ended["module"]
    assert module["not offered"] == 1
    assert scores == {
        "hooks": f"2 of 3, 66 %, {whole['hooks'] - 3} not run",
        "module": f"{module['passed']} of {module['passed']}, 100 %, {whole['module'] - module['passed'] - 1} not run",
        "guard": "not run",
    }
    levels = dict(re.findall(r"</svg> (\w+): [^<]*<span class='score'>(.*?)</span>", text))
    assert levels["minimal"].startswith("2 of 2, 100 %, ")  # the two hooks for new generators
    assert levels["usable"].startswith(f"{module['passed']} of {module['passed'] + 1}, ")


def test_a_sheet_with_many_reasons_is_printed_smaller(broken: Ran, tmp_path: Path) -> None:
    names = list(dict.fromkeys(name.partition("[")[0] for name in collected(tmp_path, "--area=device,guard")))
    assert len(names) > 9
    check = broken.report["checks"][0] | {"outcome": "failed", "reason": "so"}
    for count, kind in ((8, "poster"), (9, "poster crowded")):
        checks = [check | {"name": name} for name in names if name != "device/index_beyond_the_last_is_refused"][:count]
        (tmp_path / "report.json").write_text(json.dumps(broken.report | {"checks": checks}), encoding="utf-8")
        said = run_poster(tmp_path / "poster.html", "--area=device,guard", "--from", str(tmp_path / "report.json"))
        assert said.status == 0, said.output
        assert f"<div class='{kind}'>" in (tmp_path / "poster.html").read_text(encoding="utf-8")


def test_a_backend_that_cannot_be_asked_is_told(broken: Ran, tmp_path: Path) -> None:
    content = broken.report | {"fault": "a worker ended before its first check", "checks": []}
    (tmp_path / "report.json").write_text(json.dumps(content), encoding="utf-8")
    run_poster(tmp_path / "poster.html", "--area=hooks", "--from", str(tmp_path / "report.json"))
    assert (
        "The backend cannot be asked: a worker ended before its first check" in (tmp_path / "poster.html").read_text()
    )


def change(**changed: Any) -> Callable[[dict[str, Any]], str]:
    return lambda content: json.dumps(content | changed)


def unknown(content: dict[str, Any]) -> str:
    check = content["checks"][0]
    return json.dumps(content | {"checks": [check | {"name": f"hooks/colour_{number}"} for number in range(5)]})


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (None, "report.json cannot be read: No such file or directory"),
        (lambda content: "score: 100 %", "report.json is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (lambda content: "[]", "report.json is JSON, and no report of this kit"),
        (change(format=7), "report.json is of another version of the kit: format 7, and not 1"),
        (change(checks=[{}]), "report.json is no whole report of this kit: KeyError: 'name'"),
        (change(run={"kit": "0.0.1"}), "report.json is of version 0.0.1 of the kit, and this is 0.1.0: run it anew"),
        (
            unknown,
            "report.json names checks that this kit has not: hooks/colour_0, hooks/colour_1, hooks/colour_2 and 2 more",
        ),
        (
            lambda content: json.dumps(content).replace('"passed"', '"perfect"'),
            "report.json has outcomes that there are not: perfect",
        ),
    ],
)
def test_a_report_that_cannot_fill_it_in_is_refused(
    written: Callable[[dict[str, Any]], str] | None, message: str, broken: Ran, tmp_path: Path
) -> None:
    if written:
        (tmp_path / "report.json").write_text(written(broken.report), encoding="utf-8")
    said = run_poster(tmp_path / "poster.html", "--area=hooks", "--from", str(tmp_path / "report.json"))
    assert said.status == 4
    assert f"--from: {tmp_path}/{message}" in said.output
    assert not (tmp_path / "poster.html").exists()


@pytest.mark.parametrize(
    ("file", "reason"), [("/proc/x.html", "No such file or directory"), ("folder", "Is a directory")]
)
def test_a_poster_that_cannot_be_written_is_refused(file: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    said = run_poster(tmp_path / file, "--area=hooks")
    assert said.status == 4
    assert f"--poster: {tmp_path / file} cannot be written: {reason}; name another with --poster" in said.output
    assert "INTERNALERROR" not in said.output


def test_a_report_without_a_poster_is_refused(tmp_path: Path) -> None:
    ran = run_kit(tmp_path / "report", "--from", "report.json")
    assert ran.status == 4
    assert "--from fills in a poster: name the file for it, --poster poster.html" in ran.output
