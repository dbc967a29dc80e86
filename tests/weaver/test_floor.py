from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from weaver.proof import floor
from weaver.proof.lines import CLASSES
from weaver.proof.planned import Page
from weaver.sources.binding import code_digest
from weaver.sources.listing import Listing

from tests.weaver.conftest import HOOKS, SHOW
from tests.weaver.measurement import EXAMPLE, measure, mutate, plan

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

LINES, MUTANTS, FLOOR = (f"docs/proof/{name}.json" for name in ("lines", "mutants", "floor"))


def pages(repository: Repository) -> list[Page]:
    return [
        Page(name, entry["file"], entry["digest"], [Listing(**one) for one in entry["listings"]], [], entry["blocks"])
        for name, entry in plan(repository).items()
    ]


def faults(repository: Repository) -> list[str]:
    return list(floor.faults(repository.configuration, pages(repository)))


def waiting(count: int) -> str:
    """The fault of listings without mutants, where none may wait."""
    return f"docs/proof/floor.json: {count} listings wait for their mutants, untried of all pages lets 0 wait"


def replace(repository: Repository, path: str, old: str, new: str) -> None:
    text = (repository.root / path).read_text(encoding="utf-8")
    assert old in text
    repository.write(path, text.replace(old, new))


def lower_narrated(repository: Repository) -> None:
    """Removes the floor of the narrated share."""
    figures = floor.read_floor(repository.configuration)
    figures["all pages"]["narrated"] = 0.0
    repository.write(FLOOR, json.dumps(figures))


@pytest.fixture
def proven(repository: Repository) -> Repository:
    """A repository with a complete proof and a floor."""
    repository.add(EXAMPLE)
    measure(repository, executed=[6, 7], example=0)
    mutate(repository, killed=9, survived=1)
    floor.raise_floor(repository.configuration, pages(repository))
    return repository


def test_a_complete_proof_has_no_fault(proven: Repository) -> None:
    assert faults(proven) == []
    assert json.loads((proven.root / FLOOR).read_text(encoding="utf-8")) == {
        "all pages": {"narrated": 0.6666},
        "index": {"examples": 1, "executed": 1.0, "killed": 0.9},
    }


def test_the_floor_leaves_out_what_pages_show_excerpts_of(proven: Repository) -> None:
    proven.write("csrc/other/unshown.cpp", "int unshown;\n" * 9)
    assert faults(proven) == [
        "docs/proof/floor.json: all pages: 0.2666 of the package's lines stand in a listing, the floor is 0.6666"
    ]
    proven.configure(excerpts=["csrc/other"])
    assert faults(proven) == []


def test_without_a_proof_each_file_is_named(repository: Repository) -> None:
    assert faults(repository) == [
        "docs/proof/lines.json: there is none; run `make proof`",
        "docs/proof/mutants.json: there are none; run `make mutate`",
        waiting(1),
        "docs/proof/floor.json: there is none; run `make proof`",
    ]


def test_a_change_of_prose_makes_nothing_stale(proven: Repository) -> None:
    replace(proven, "docs/source/index.md", "# Guide", "# Guide\n\nOne more sentence.")
    assert faults(proven) == []


def test_a_change_outside_of_the_listings_makes_the_pages_stale_that_execute_and_show_the_source(
    proven: Repository,
) -> None:
    replace(proven, "csrc/hooks.cpp", "// The hooks.", "static int hooks;")
    assert faults(proven) == [
        "docs/proof/lines.json: index: csrc/hooks.cpp, which it shows and executes, changed since it was measured; "
        "run `make proof`"
    ]


def test_a_change_of_a_source_that_a_page_executes_and_does_not_show_ages_it(proven: Repository) -> None:
    proven.write("csrc/loop.h", "int loop;\n")
    lower_narrated(proven)
    lines = json.loads((proven.root / LINES).read_text(encoding="utf-8"))
    lines["pages"]["index"]["sources"]["csrc/loop.h"] = code_digest(proven.root / "csrc/loop.h")
    proven.write(LINES, json.dumps(lines))

    def aged() -> bool:
        return floor.read_state(proven.configuration, pages(proven)).measured.aged("index")

    assert not aged()
    replace(proven, "csrc/loop.h", "int", "long")
    assert faults(proven) == []
    assert aged()
    replace(proven, "docs/source/index.md", "1 + 1", "2 + 0")
    assert not aged()  # it is stale


def test_a_change_of_a_source_that_no_page_executes_makes_nothing_stale(proven: Repository) -> None:
    proven.write("csrc/other.cpp", "int other;\n")
    replace(proven, "CMakeLists.txt", "add_library", "# changed\nadd_library")
    lower_narrated(proven)
    assert faults(proven) == []


def test_a_listing_that_moves_keeps_its_lines(proven: Repository) -> None:
    replace(proven, "csrc/hooks.cpp", "// The hooks.", "// The hooks\n// of the device.")
    lower_narrated(proven)
    assert faults(proven) == []
    measured = floor.read_state(proven.configuration, pages(proven)).measured
    lines = measured.lines("index")
    assert lines
    ((listing, moved),) = lines.listings.items()
    assert (listing.first, moved.executed) == (6, [7, 8])
    mutants = measured.mutants(listing)
    assert mutants
    assert [mutant.line for mutant in mutants.survived] == [7]


def test_what_fell_back_and_is_present_now_makes_its_pages_stale(proven: Repository) -> None:
    measure(proven, executed=[6, 7], example=0, fell_back=["aten::angle"])
    proven.write("present.txt", "aten::abs")
    assert faults(proven) == []
    proven.write("present.txt", "aten::angle")
    why = "the project has aten::angle now, which was not there when it was measured"
    assert faults(proven) == [f"docs/proof/lines.json: index: {why}; run `make proof`"]


def test_a_changed_region_makes_its_mutants_stale(proven: Repository) -> None:
    replace(proven, "csrc/hooks.cpp", "start();", "stop();")
    why = "it or torch has changed since its mutants were tried"
    assert f"docs/proof/mutants.json: csrc/hooks.cpp:5 (hooks-init): {why}; run `make mutate`" in faults(proven)


def test_mutants_hold_while_the_examples_are_there_that_killed_them(proven: Repository) -> None:
    page = "docs/source/index.md"
    replace(proven, page, "1 + 1\n2\n", "1 + 1\n2\n>>> 2 + 2\n4\n")
    assert not any("mutants.json" in fault for fault in faults(proven))
    replace(proven, page, ">>> 1 + 1\n2\n", "")
    why = "an example that killed one of its mutants has changed or is gone"
    assert f"docs/proof/mutants.json: csrc/hooks.cpp:5 (hooks-init): {why}; run `make mutate`" in faults(proven)


def test_listings_may_wait_for_their_mutants_where_the_floor_says_so(proven: Repository) -> None:
    replace(proven, "csrc/hooks.cpp", "start();", "stop();")
    figures = floor.read_floor(proven.configuration)
    figures["all pages"]["untried"] = 1
    proven.write(FLOOR, json.dumps(figures))
    assert not any(fault.startswith("docs/proof/mutants.json") for fault in faults(proven))
    figures["all pages"]["untried"] = 0
    proven.write(FLOOR, json.dumps(figures))
    assert any(fault.startswith("docs/proof/mutants.json") for fault in faults(proven))


@pytest.mark.parametrize(
    "change",
    [
        {"path": "csrc/gone.cpp"},
        {"line": "int hooks() {"},
        {"operator": "boundary"},
        {"before": "start(1);"},
        {"after": "stop();"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_excuse_for_a_mutant_that_is_gone_is_named(proven: Repository, change: dict[str, str]) -> None:
    excuse = {
        "path": "csrc/hooks.cpp",
        "line": "start();",
        "operator": "statement removed",
        "before": "start();",
        "after": "",
        "reason": "The device starts by itself.",
    }

    def found(excuse: dict[str, str]) -> list[str]:
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in excuse.items())
        proven.write("docs/proof/equivalent.toml", f"[[mutant]]\n{text}")
        return faults(proven)

    assert found(excuse) == []
    (fault,) = found(excuse | change)
    text = "docs/proof/equivalent.toml: excuses a mutant that does not exist, or no longer: "
    assert fault.startswith(text + "{path}: {line}: {operator}: {before} -> ".format(**excuse | change)), fault


def test_a_changed_example_makes_its_page_stale(proven: Repository) -> None:
    replace(proven, "docs/source/index.md", "1 + 1", "2 + 0")
    found = faults(proven)
    assert found[0] == (
        "docs/proof/lines.json: index: what the page runs has changed since it was measured; run `make proof`"
    )
    assert "csrc/hooks.cpp:5 (hooks-init)" in found[1]
    assert found[2:] == [waiting(1)]


def test_a_changed_script_makes_the_page_that_runs_it_and_its_kills_stale(repository: Repository) -> None:
    repository.write("examples/first.py", "import helper\n\nassert helper.one() == 1\n")
    repository.write("examples/helper.py", "def one():\n    return 1\n")
    repository.add('```{doctest}\n>>> run_example("examples/first.py")\n```\n')
    measure(repository, executed=[6, 7], example=0)
    mutate(repository, killed=9)
    floor.raise_floor(repository.configuration, pages(repository))
    assert faults(repository) == []
    replace(repository, "examples/first.py", "import helper", "# What checks it.\nimport helper")
    assert faults(repository) == []
    for path, old, new in (("first", "helper.one() == 1", "True"), ("helper", "return 1", "return 2")):
        replace(repository, f"examples/{path}.py", old, new)
        assert faults(repository) == [
            "docs/proof/lines.json: index: what the page runs has changed since it was measured; run `make proof`",
            "docs/proof/mutants.json: csrc/hooks.cpp:5 (hooks-init): an example that killed one of its mutants has "
            "changed or is gone; run `make mutate`",
            waiting(1),
        ]
        replace(repository, f"examples/{path}.py", new, old)
    assert faults(repository) == []


def test_another_torch_makes_the_lines_stale(proven: Repository) -> None:
    replace(proven, LINES, '"torch": "', '"torch": "1.')
    assert "it was measured with torch 1.2." in faults(proven)[0]


def test_a_new_page_is_named(proven: Repository) -> None:
    proven.add("\n```{toctree}\nother\n```\n")
    proven.page("# Other\n\n" + EXAMPLE, "other.md")
    assert faults(proven) == ["docs/proof/lines.json: other: the page was never measured; run `make proof`"]


def test_a_page_that_is_gone_is_named(proven: Repository) -> None:
    file = proven.root / LINES
    measured = json.loads(file.read_text(encoding="utf-8"))
    measured["pages"]["gone"] = measured["pages"]["index"] | {"listings": []}
    file.write_text(json.dumps(measured), encoding="utf-8")
    assert faults(proven) == ["docs/proof/lines.json: gone: the page is gone; run `make proof`"]


def test_missed_lines_are_named(proven: Repository) -> None:
    measure(proven, executed=[6], missed=[7])
    found = faults(proven)
    assert found[0] == "csrc/hooks.cpp:7: shown by index, and no example of a page that shows the line executes it"


def test_too_many_excuses_are_a_fault(proven: Repository) -> None:
    measure(proven, executed=[6], excused={"7": "so"})
    assert "1 of 4 displayed lines are excused, which is more than 1%" in faults(proven)[0]


def test_an_excuse_at_a_line_that_is_executed_is_a_fault(proven: Repository) -> None:
    replace(proven, "csrc/hooks.cpp", "start();\n}", "start();  // NOT PROVEN: so\n}  // NOT PROVEN: the brace")
    measure(proven, executed=[6, 7, 8])
    assert faults(proven) == ["csrc/hooks.cpp:7: an example executes the line: delete its excuse, 'so'"]


def test_lines_that_are_not_measured_need_a_reason(proven: Repository) -> None:
    measure(proven, executed=[6], silent={"not measured": [7]})
    why = "csrc/hooks.cpp: shown by index, not measured, and weaver.toml does not say why; "
    assert faults(proven) == [f"{why}run `make proof ARGS='--page index'`"]
    settings = {"observer": "tests.weaver.observer"}
    proven.configure(measure={**settings, "unmeasured": {"csrc/*.cpp": "it needs a device"}})
    assert faults(proven) == []
    proven.configure(measure={**settings, "unmeasured": {"csrc/hooks.cpp": "it needs one", "csrc/*.cl": "so"}})
    assert faults(proven) == [
        "weaver.toml: [measure]: unmeasured: no page shows a source that matches csrc/*.cl; take it out"
    ]


def test_an_input_that_does_not_exist_is_a_fault(proven: Repository) -> None:
    inputs = {"csrc/*": ["csrc/*.cpp", "csrc/*.toml"]}
    proven.configure(measure={"observer": "tests.weaver.observer", "inputs": inputs})
    assert faults(proven) == ["weaver.toml: [measure]: inputs: no file matches csrc/*.toml; take it out"]


def test_lines_that_another_version_of_the_weaver_sorted_are_stale(proven: Repository) -> None:
    replace(proven, LINES, f'"classes": {CLASSES}', f'"classes": {CLASSES - 1}')
    assert faults(proven)[0] == (
        "docs/proof/lines.json: another version of the weaver sorted its lines; run `make proof`"
    )


def test_a_listing_without_mutants_is_named(proven: Repository) -> None:
    replace(proven, MUTANTS, "hooks-init", "hooks-other")
    assert faults(proven) == [
        "docs/proof/mutants.json: csrc/hooks.cpp:5 (hooks-init): its mutants were never tried; run `make mutate`",
        "docs/proof/mutants.json: csrc/hooks.cpp:5 (hooks-other): no page shows it any more; run `make mutate`",
        waiting(2),
    ]


def test_a_region_takes_its_mutants_along_into_another_file(proven: Repository) -> None:
    replace(proven, MUTANTS, "csrc/hooks.cpp", "csrc/other.cpp")
    assert faults(proven) == []


def test_a_listing_whose_file_is_gone_is_named(proven: Repository) -> None:
    text = json.loads((proven.root / MUTANTS).read_text(encoding="utf-8"))
    (tried,) = text["regions"]
    text["regions"] = [tried, {**tried, "path": "csrc/gone.cpp", "region": "gone-init"}]
    proven.write(MUTANTS, json.dumps(text))
    assert faults(proven) == [
        "docs/proof/mutants.json: csrc/gone.cpp:5 (gone-init): no page shows it any more; run `make mutate`",
        waiting(1),
    ]
    measured = floor.read_state(proven.configuration, pages(proven)).measured
    (gone,) = [listing for listing in measured.tried if listing.path == "csrc/gone.cpp"]
    assert measured.stale_mutants(gone) == "its file is there no more"


def test_fallen_figures_are_named(proven: Repository) -> None:
    raised = '{"all pages": {"narrated": 1.0}, "gone": {}, "index": {"examples": 2, "executed": 1.0, "killed": 0.95}}'
    proven.write(FLOOR, raised)
    proven.write("torch_openreg/device.py", "A = 1\n")
    measure(proven, executed=[6], excused={"7": "so"})
    assert faults(proven)[1:] == [
        "docs/proof/floor.json: all pages: 0.5714 of the package's lines stand in a listing, the floor is 1",
        "docs/proof/floor.json: gone has a floor, and there is no such page; take it out by hand",
        "docs/proof/floor.json: index: 1 examples run, the floor is 2",
        "docs/proof/floor.json: index: 0.5 of the executable lines that are shown are executed, the floor is 1",
        "docs/proof/floor.json: index: 0.9 of the mutants are killed, the floor is 0.95",
    ]


def test_a_listing_that_waits_counts_as_it_was_last_tried(proven: Repository) -> None:
    figures = floor.read_floor(proven.configuration)
    figures["all pages"]["untried"] = 1
    proven.write(FLOOR, json.dumps(figures))
    replace(proven, "csrc/hooks.cpp", "start();", "stop();")
    fallen = "docs/proof/floor.json: index: 0.5 of the mutants are killed, the floor is 0.9"
    assert fallen not in faults(proven)
    text = json.loads((proven.root / MUTANTS).read_text(encoding="utf-8"))
    text["regions"][0] |= {"killed": 5, "survived": text["regions"][0]["survived"] * 5}
    proven.write(MUTANTS, json.dumps(text))
    assert fallen in faults(proven)
    # It lowers no floor, and raises none.
    for killed, expected in ((0.9, 0.9), (0.3, 0.3)):
        proven.write(FLOOR, json.dumps({"index": {"killed": killed}}))
        floor.raise_floor(proven.configuration, pages(proven))
        assert floor.read_floor(proven.configuration)["index"]["killed"] == expected


def test_the_floor_rises_and_never_falls(proven: Repository) -> None:
    replace(proven, FLOOR, '"executed": 1.0, "killed": 0.9', '"executed": 0.5, "killed": 0.95')
    floor.raise_floor(proven.configuration, pages(proven))
    kept = json.loads((proven.root / FLOOR).read_text(encoding="utf-8"))["index"]
    assert kept == {"examples": 1, "executed": 1.0, "killed": 0.95}


def test_a_page_with_untried_mutants_does_not_raise_the_floor_of_the_killed(proven: Repository) -> None:
    (proven.root / FLOOR).unlink()
    proven.write("CMakeLists.txt", "add_library(backend csrc/hooks.cpp csrc/other.cpp)\n")
    proven.write("csrc/other.cpp", HOOKS.replace("hooks-", "other-"))
    proven.add(SHOW.replace("hooks", "other"))
    measure(proven, executed=[6, 7], example=0)
    mutate(proven, killed=9, survived=1)
    both = json.loads((proven.root / MUTANTS).read_text(encoding="utf-8"))
    one = {**both, "regions": both["regions"][:1]}
    untried = {"examples": 1, "executed": 1.0}
    for tried, expected in ((one, untried), (both, {**untried, "killed": 0.9})):
        proven.write(MUTANTS, json.dumps(tried))
        floor.raise_floor(proven.configuration, pages(proven))
        assert floor.read_floor(proven.configuration)["index"] == expected


def test_a_stale_measurement_raises_nothing(proven: Repository) -> None:
    (proven.root / FLOOR).unlink()
    replace(proven, "csrc/hooks.cpp", "start();", "stop();")
    floor.raise_floor(proven.configuration, pages(proven))
    kept = json.loads((proven.root / FLOOR).read_text(encoding="utf-8"))["index"]
    assert kept == {"examples": 1}
