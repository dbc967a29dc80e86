from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.weaver.conftest import SHOW
from tests.weaver.measurement import EXAMPLE, measure, mutate

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository, Result

LINES = "docs/proof/lines.json"


def marks(result: Result, page: str = "index") -> list[tuple[str, str]]:
    """The state and text of each mark on a page."""
    assert result.status == 0, result.warnings
    html = (result.output / f"{page}.html").read_text(encoding="utf-8")
    found = re.findall(r'<div class="mark mark-(\w+) [^>]*>(.*?)</div>', html, re.DOTALL)
    return [(state, re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text)).strip()) for state, text in found]


def replace(repository: Repository, path: str, old: str, new: str) -> None:
    text = (repository.root / path).read_text(encoding="utf-8")
    assert old in text
    repository.write(path, text.replace(old, new))


@pytest.fixture
def measured(repository: Repository) -> Repository:
    """A page whose listing is executed by its second example."""
    repository.add(EXAMPLE + "\n" + EXAMPLE)
    measure(repository, executed=[6, 7], example=1)
    return repository


def test_a_listing_without_a_measurement_says_so(repository: Repository) -> None:
    assert marks(repository.build()) == [("absent", "?Not measured: run make proof")]


def test_an_executed_listing_leads_to_its_example(measured: Repository) -> None:
    result = measured.build()
    assert marks(result) == [("proven", "✓2 of 2 lines executed by this page")]
    html = (result.output / "index.html").read_text(encoding="utf-8")
    assert '<a class="reference internal" href="#example-2">2 of 2 lines executed by this page</a>' in html
    assert len(re.findall(r'id="example-\d"', html)) == 2
    assert html.index('id="example-1"') < html.index('id="example-2"')


def test_a_hidden_example_can_be_led_to(repository: Repository) -> None:
    repository.add("```{testsetup}\na = 1\n```\n\n" + EXAMPLE)
    measure(repository, executed=[6], example=0)
    html = (repository.build().output / "index.html").read_text(encoding="utf-8")
    assert 'id="example-1"' in html
    assert 'href="#example-1"' in html


def test_missed_lines_are_named(repository: Repository) -> None:
    measure(repository, executed=[5], missed=[6, 7])
    assert marks(repository.build()) == [("missed", "✗1 of 3 lines executed by this page; not executed: 6-7")]


def test_excused_lines_come_with_their_reasons(repository: Repository) -> None:
    measure(repository, executed=[5], excused={"6": "the device never ends"})
    words = "✓1 of 2 lines executed by this page, 1 excused why 1 is excused line 6: the device never ends"
    assert marks(repository.build()) == [("proven", words)]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("declaration", "·Declarations, nothing to execute"),
        ("registration", "·Registration, runs when the library loads"),
        ("build file", "·Build file, what it builds is what the examples run"),
        ("other release", "·For another release, not compiled with this one"),
        ("not measured", "·Not measured, because it needs a device"),
    ],
)
def test_lines_without_information_say_why(repository: Repository, reason: str, words: str) -> None:
    repository.configure(measure={"unmeasured": {"csrc/*": "because it needs a device"}})
    measure(repository, silent={reason: [5, 6, 7]})
    assert marks(repository.build()) == [("silent", words)]


def test_another_page_can_execute_the_rest(repository: Repository) -> None:
    repository.add("\n```{toctree}\nother\n```\n")
    repository.page("# The other page\n\n" + SHOW + "\n" + EXAMPLE, "other.md")
    measure(repository, "other", executed=[6, 7], example=0)
    data = json.loads((repository.root / LINES).read_text(encoding="utf-8"))
    data["pages"]["index"]["listings"][0] |= {"executed": [5], "missed": [6, 7]}
    repository.write(LINES, json.dumps(data))
    result = repository.build()
    words = "✓1 of 3 lines executed by this page, 3 of 3 with The other page"
    assert marks(result) == [("proven", words)]
    assert 'href="other.html#example-1"' in (result.output / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("csrc/hooks.cpp", "start();", "stop();"),
        ("csrc/hooks.cpp", "start();", "start();  // now"),
        ("docs/source/index.md", "1 + 1", "2 + 0"),
    ],
)
def test_a_change_makes_the_mark_stale_in_an_incremental_build(
    measured: Repository, path: str, old: str, new: str
) -> None:
    assert marks(measured.build())[0][0] == "proven"
    replace(measured, path, old, new)
    assert marks(measured.build()) == [("stale", "↻Changed since it was measured: run make proof")]
    measure(measured, executed=[6, 7], example=1)
    assert marks(measured.build())[0][0] == "proven"


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("docs/source/index.md", "# Guide", "# Guide\n\nOne more sentence."),
        ("csrc/hooks.cpp", "// The hooks.", "// The hooks of the device.\n// They begin it."),
        ("CMakeLists.txt", "add_library", "# changed\nadd_library"),
    ],
)
def test_a_change_of_what_is_neither_run_nor_shown_keeps_the_mark(
    measured: Repository, path: str, old: str, new: str
) -> None:
    measured.build()
    replace(measured, path, old, new)
    assert marks(measured.build()) == [("proven", "✓2 of 2 lines executed by this page")]


def test_a_changed_script_makes_the_mark_stale_in_an_incremental_build(repository: Repository) -> None:
    repository.write("examples/first.py", "import helper\n")
    repository.write("examples/helper.py", "assert one\n")
    repository.add("```{console-run}\n$ python examples/first.py\n```\n")
    measure(repository, executed=[6, 7], example=0)
    assert marks(repository.build())[0][0] == "proven"
    replace(repository, "examples/helper.py", "assert one", "print(1)")
    assert marks(repository.build()) == [("stale", "↻Changed since it was measured: run make proof")]


def test_another_torch_makes_the_mark_stale(measured: Repository) -> None:
    replace(measured, LINES, '"torch": "', '"torch": "1.')
    assert marks(measured.build())[0][0] == "stale"


def test_mutants_are_shown_while_they_are_current(measured: Repository) -> None:
    mutate(measured, killed=9, survived=1, equivalent=2)
    assert marks(measured.build()) == [("proven", "✓2 of 2 lines executed by this page · 9 of 10 mutants killed")]
    replace(measured, "docs/source/index.md", "1 + 1", "2 + 0")
    measure(measured, executed=[6, 7], example=1)
    waiting = "✓2 of 2 lines executed by this page · mutants not tried yet"
    assert marks(measured.build()) == [("proven", waiting)]


def test_whole_sources_and_torch_carry_no_mark(repository: Repository) -> None:
    repository.add("```{whole-sources}\ncsrc/hooks.cpp\n```\n")
    assert len(marks(repository.build())) == 1


def test_a_broken_proof_file_is_a_fault(repository: Repository) -> None:
    repository.write(LINES, '{"pages": {"index": {}}}')
    result = repository.build()
    assert result.status != 0
    assert "is not as `make proof` and `make mutate` write it" in result.warnings
