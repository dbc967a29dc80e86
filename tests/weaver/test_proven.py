from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from weaver.pages.proven_tables import TABLES

from tests.weaver.measurement import EXAMPLE, measure, mutate

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

LINES = "docs/proof/lines.json"


def add_tables(repository: Repository) -> None:
    """Add an example and all tables to the page."""
    repository.add(EXAMPLE + "".join(f"\n## About {kind}\n\n```{{proven}} {kind}\n```\n" for kind in TABLES))


def tables(repository: Repository) -> dict[str, list[str]]:
    """The rows of each table, as words, or its note."""
    repository.configure(package=["csrc"], every_file_has_a_chapter=True)
    result = repository.build()
    assert result.status == 0, result.warnings
    html = (result.output / "index.html").read_text(encoding="utf-8")
    found = {}
    for kind in TABLES:
        section = re.search(rf'id="proven-{kind}"></span>(.*?)</section>', html, re.DOTALL)
        assert section, kind
        rows = re.findall(r"<tr[^>]*>(.*?)</tr>|<p class=\"proven-note\">(.*?)</p>", section[1], re.DOTALL)
        cells = [re.sub(r"</t[dh]>", " | ", row or note) for row, note in rows]
        found[kind] = [" ".join(re.sub(r"<[^>]+>", "", cell).split()).removesuffix(" |") for cell in cells]
    return found


@pytest.fixture
def repository(repository: Repository) -> Repository:
    """The small repository with all tables on its page."""
    add_tables(repository)
    repository.add("```{whole-sources}\ncsrc/hooks.cpp\n```\n")
    return repository


def test_without_proof_files_the_page_says_so(repository: Repository) -> None:
    found = tables(repository)
    assert found["state"] == [
        "Nothing is measured yet: docs/proof/lines.json is not there.",
        "No mutants were tried yet: docs/proof/mutants.json is not there.",
    ]
    assert found["lines"][1:] == [
        "Guide | 1 | not measured | | | | | |",
        "All | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0",
    ]
    assert found["examples"][1:] == ["Guide | 1 | not measured", "All | 1 | 0.0"]
    assert found["excused"] == ["No line is excused."]
    assert found["survivors"] == ["No mutant that was tried survived."]
    assert found["equivalent"] == ["No mutant is listed as equivalent."]


def test_figures(repository: Repository) -> None:
    silent = {"declaration": [5], "not measured": [4]}
    measure(repository, executed=[6], missed=[7], excused={"8": "it is the end"}, silent=silent)
    mutate(repository, killed=2, survived=1, equivalent=1)
    found = tables(repository)
    assert found["state"][0].startswith("Lines: measured on 2026-11-21 with torch 2.")
    assert "1 of 1 pages run the examples that they were measured with" in found["state"][0]
    assert "0 of these also run sources" in found["state"][0]
    assert found["state"][1] == "Mutants: tried on 2026-11-21."
    assert found["lines"][1:] == ["Guide | 1 | 4 | 3 | 1 | 1 | 1 | 1 | 1", "All | 1 | 4 | 3 | 1 | 1 | 1 | 1 | 1"]
    assert found["mutants"][1:] == ["Guide | 4 | 2 | 1 | 66.6 % | 1 | 0", "All | 4 | 2 | 1 | 66.6 % | 1 | 0"]
    assert found["examples"][1:] == ["Guide | 1 | 1.5", "All | 1 | 1.5"]
    assert found["excused"][1:] == ["csrc/hooks.cpp:8 | it is the end"]
    assert found["survivors"][1:] == ["csrc/hooks.cpp | 3 | 1 | 66.6 %"]
    assert found["equivalent"][1:] == ["csrc/hooks.cpp:6 | start(); | stop(); | it is never called"]
    assert found["narrated"][1:3] == ["csrc | 1 | 6 | 4 | 66.6 %", "All | 1 | 6 | 4 | 66.6 %"]
    assert found["narrated"][4] == "csrc/hooks.cpp | 6 | 4 | 66.6 % | Guide"


def test_survivors_are_below_the_source_that_they_are_in(repository: Repository) -> None:
    def shown() -> str:
        assert repository.build().status == 0
        page = (repository.root / "docs/build/html/sources/csrc/hooks.cpp.html").read_text(encoding="utf-8")
        return " ".join(re.sub(r"<[^>]+>", " ", page.partition('<section id="survivors">')[2]).split())

    mutate(repository, killed=2)
    assert not shown()
    mutate(repository, killed=2, survived=1)
    assert shown().count("6 start(); stop();") == 1
    mutate(repository, killed=2, survived=2)
    assert shown().count("6 start(); stop();") == 2
    # An example that had killed one of its mutants is there no more: the trial holds no longer.
    index = repository.root / "docs/source/index.md"
    repository.write("docs/source/index.md", index.read_text(encoding="utf-8").replace("1 + 1\n2", "1 + 2\n3"))
    assert not shown()


def test_the_days_of_the_trials_are_shown(repository: Repository) -> None:
    measure(repository, executed=[6])
    mutate(repository, killed=2)
    file = repository.root / "docs/proof/mutants.json"
    (entry,) = json.loads(file.read_text(encoding="utf-8"))["regions"]
    later = {**entry, "region": "hooks-gone", "date": "2026-12-02"}
    repository.write("docs/proof/mutants.json", json.dumps({"regions": [entry, later]}))
    assert tables(repository)["state"][1] == "Mutants: tried from 2026-11-21 to 2026-12-02."


def test_stale_figures_are_not_shown(repository: Repository) -> None:
    measure(repository, executed=[6])
    assert tables(repository)["lines"][1].startswith("Guide | 1 | 4 | 1 | 1")
    source = repository.root / "csrc/hooks.cpp"
    repository.write("csrc/hooks.cpp", source.read_text(encoding="utf-8").replace("start();", "stop();"))
    found = tables(repository)
    assert "0 of 1 pages run the examples that they were measured with" in found["state"][0]
    assert found["lines"][1] == "Guide | 1 | not measured | | | | | |"
    (repository.root / LINES).unlink()
    assert tables(repository)["state"][0].startswith("Nothing is measured yet")


def test_listings_whose_mutants_were_not_tried_are_counted(repository: Repository) -> None:
    measure(repository, executed=[6])
    assert tables(repository)["mutants"][1] == "Guide | 0 | 0 | 0 | none | 0 | 1"


def test_an_unknown_table_is_a_fault(repository: Repository) -> None:
    line = repository.add("```{proven} everything\n```\n")
    repository.build().assert_fault(f"index.md:{line}", "no table `everything`; there are: state, lines")
