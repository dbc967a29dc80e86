"""``make mutate`` on a small repository with planted faults, from the pages to the written result."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from weaver.fault import Fault
from weaver.proof import mutate, trial

from tests.weaver.conftest import Repository

if TYPE_CHECKING:
    from collections.abc import Iterator

CMAKE = """\
cmake_minimum_required(VERSION 3.25)
project(toy LANGUAGES CXX)
add_library(toy SHARED csrc/toy.cpp)
install(TARGETS toy LIBRARY DESTINATION torch_openreg/lib)
"""
PROJECT = """\
[project]
name = "toy"
version = "1.0"
[project.entry-points."toy"]
toy = "toy"
"""
REGIONS = {
    # Every mutant of it is killed, including one that never ends and one that crashes.
    "toy-count": """\
extern "C" int count_down(int n) {
  int steps = 0;
  while (n > 0) {
    --n;
    ++steps;
  }
  return steps;
}
""",
    # The example runs it, but does not check the result.
    "toy-unseen": 'extern "C" int unseen(int n) { return n + 7; }\n',
    # No example runs it.
    "toy-unreached": 'extern "C" int unreached(int n) { return n + 7; }\n',
    # No example can run it, as it says.
    "toy-excused": 'extern "C" int excused(int n) { return n + 7; }  // NOT PROVEN: needs a second machine\n',
    # The boundary mutant is equivalent.
    "toy-limit": """\
extern "C" int limited(int value, int limit) {
  if (value > limit) {
    value = limit;
  }
  return value;
}
""",
    # With swapped arguments, `at` does not compile.
    "toy-index": """\
static int at(const int* numbers, int index) { return numbers[index]; }
extern "C" int third(const int* numbers) {
  const int index = 2;
  return at(numbers, index);
}
""",
    # The table is constant, so the default that it uses cannot be chosen at run time.
    "toy-table": """\
struct Row {
  int factor;
  bool is_negative = false;
};
constexpr Row kRows[] = {{3}, {4, true}};
extern "C" int scaled(int row) { return kRows[row].is_negative ? -kRows[row].factor : kRows[row].factor; }
""",
    "toy-guard": """\
static int depth = 5;
struct Deeper {
  Deeper() { ++depth; }
  ~Deeper() { --depth; }
};
extern "C" int deep() {
  const Deeper deeper;
  return depth;
}
""",
}
PYTHON = """\
def is_small(n: int) -> bool:
    return n < 10


def named(n: int) -> str:
    return str(n)
"""
EXAMPLES = """\
```{doctest}
>>> import ctypes, torch_openreg
>>> toy = ctypes.CDLL("torch_openreg/lib/libtoy.so")
>>> [toy.count_down(n) for n in (0, 3)]
[0, 3]
>>> _ = toy.unseen(1)
>>> [toy.limited(n, 5) for n in (1, 8)]
[1, 5]
>>> toy.third((ctypes.c_int * 4)(4, 5, 6, 7))
6
>>> [toy.scaled(0), toy.scaled(1)]
[3, -4]
>>> [toy.deep(), toy.deep()]
[6, 6]
```
"""
ISOLATED = """\
```{console-run}
$ python -c "from torch_openreg import is_small, named; print(is_small(9), named(2))"
True 2
```
"""
EXCUSE = {
    "path": "csrc/toy.cpp",
    "line": "if (value > limit) {",
    "operator": "boundary",
    "before": "value > limit",
    "after": "(value) >= (limit)",
    "reason": "At the limit both give the limit.",
}


def excuse(**changed: str) -> str:
    return "[[mutant]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in (EXCUSE | changed).items())


def show(path: str, region: str) -> str:
    markers = "".join(f':{option}: "LITERALINCLUDE {end}: {region}"\n' for option, end in MARKERS)
    return f"```{{literalinclude}} /{path}\n{markers}```\n\n"


MARKERS = (("start-after", "START"), ("end-before", "END"))


def marked(region: str, code: str, comment: str) -> str:
    return f"{comment} LITERALINCLUDE START: {region}\n{code}{comment} LITERALINCLUDE END: {region}\n\n"


BUILD = {
    "commands": [
        ["cmake", "-S", "{tree}", "-B", "{build}", "-G", "Ninja", "{definitions}"],
        ["cmake", "--build", "{build}", "--", "{flags}"],
        ["cmake", "--install", "{build}", "--prefix", "{tree}"],
    ],
    "mutated": ["-DCMAKE_CXX_FLAGS={options} -O0", "-DCMAKE_BUILD_TYPE="],
}

SETTINGS: dict[str, Any] = {"build": BUILD, "run": {"page_seconds": 20, "read_late": ["CXX"]}}


class Toy(Repository):
    """A repository whose library has a region for each possible outcome of a mutant."""

    log: list[str]

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (root / "csrc" / "hooks.cpp").unlink()
        self.write("CMakeLists.txt", CMAKE)
        self.write("pyproject.toml", PROJECT)
        self.write(".gitignore", "/build/\n/docs/build/\n__pycache__/\n")
        self.write("csrc/toy.cpp", "".join(marked(name, code, "//") for name, code in REGIONS.items()))
        self.write("torch_openreg/__init__.py", marked("toy-small", PYTHON, "#"))
        self.write("docs/proof/equivalent.toml", excuse())
        self.configure(**SETTINGS)
        shown = "".join(show("csrc/toy.cpp", name) for name in REGIONS)
        self.page("# Toy\n\n" + shown + show("torch_openreg/__init__.py", "toy-small") + EXAMPLES + ISOLATED)
        subprocess.run(["git", "init", "--quiet", str(root)], check=True)

    def regions(self) -> dict[str, dict[str, Any]]:
        data = json.loads((self.root / "docs/proof/mutants.json").read_text(encoding="utf-8"))
        return {entry["region"]: entry for entry in data["regions"]}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toy]:
    """A repository whose mutants have all been tried once."""
    repository = Toy(tmp_path_factory.mktemp("toy"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "MARGIN", 1.0)
        mutate.main(repository.configuration, [])
        repository.log = (repository.root / "docs/build/mutate/log").read_text(encoding="utf-8").splitlines()
        yield repository


def log(toy: Toy, part: str) -> list[str]:
    return [line for line in toy.log if part in line]


@pytest.mark.long
def test_mutants_are_killed(toy: Toy) -> None:
    count = toy.regions()["toy-count"]
    assert (count["killed"], count["survived"], count["pages"]) == (7, [], ["index"])
    (endless,) = log(toy, "--n; -> (nothing)")
    assert "killed by docs/source/index.md" in endless
    assert "still running after" in endless
    assert toy.regions()["toy-guard"]["survived"] == []
    assert [line for line in log(toy, "guard removed") if "killed" in line]


def test_a_mutant_at_which_no_example_looks_survives(toy: Toy) -> None:
    unseen = toy.regions()["toy-unseen"]
    assert unseen["killed"] == 0
    assert [(one["operator"], one["before"], one["after"]) for one in unseen["survived"]] == [
        ("arithmetic", "n + 7", "(n) - (7)"),
        ("literal", "7", "7 + 1"),
    ]
    assert len({one["id"] for one in unseen["survived"]}) == 2
    assert {one["line"] for one in unseen["survived"]} == {unseen["first"]}
    lines = log(toy, f"csrc/toy.cpp:{unseen['first']}:")
    assert [": survived (" in line for line in lines] == [True, True]


def test_what_no_example_reaches_survives_without_a_run(toy: Toy) -> None:
    assert len(toy.regions()["toy-unreached"]["survived"]) == 2
    assert len(log(toy, ": not reached (0.0 s)")) == 2


def test_an_excused_line_has_no_mutants(toy: Toy) -> None:
    excused = toy.regions()["toy-excused"]
    assert (excused["killed"], excused["survived"], excused["refused"]) == (0, [], 0)
    assert not log(toy, f"csrc/toy.cpp:{excused['first']}:")


def test_an_equivalent_mutant_is_told_apart(toy: Toy) -> None:
    limit = toy.regions()["toy-limit"]
    assert limit["survived"] == []
    assert [(one["operator"], one["reason"]) for one in limit["equivalent"]] == [("boundary", EXCUSE["reason"])]


def test_what_does_not_compile_counts_for_nothing(toy: Toy) -> None:
    index = toy.regions()["toy-index"]
    assert (index["refused"], index["survived"]) == (1, [])


def test_what_the_compiler_evaluates_counts_for_nothing(toy: Toy) -> None:
    table = toy.regions()["toy-table"]
    assert (table["refused"], table["killed"], table["survived"]) == (1, 3, [])


def test_a_mutant_of_python_is_killed_in_a_process_of_its_own(toy: Toy) -> None:
    small = toy.regions()["toy-small"]
    assert small["killed"] == 1
    assert [one["operator"] for one in small["survived"]] == ["boundary", "literal"]


@pytest.mark.long
def test_what_does_not_compile_is_known_to_the_next_run(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    mutate.main(toy.configuration, ["--region", "toy-index"])
    assert "that do not compile\n" not in capsys.readouterr().out
    assert toy.regions()["toy-index"]["refused"] == 1
    source = (toy.root / "csrc/toy.cpp").read_text(encoding="utf-8")
    toy.write("csrc/toy.cpp", source + "// changed\n")
    mutate.main(toy.configuration, ["--region", "toy-index"])
    assert "left out 1 mutants that do not compile" in capsys.readouterr().out
    toy.write("csrc/toy.cpp", source)


@pytest.mark.long
def test_code_with_mutants_can_be_traced() -> None:
    """Dynamo takes what weaver_mutant returns for a constant."""
    program = (
        "import torch, weaver_mutant\n"
        "@torch.compile(backend='eager', fullgraph=True)\n"
        "def twice(x):\n"
        "    return x + 1 if _weaver_mutant(2) else x * 2\n"
        "print(twice(torch.tensor(5.0)).item())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(mutate.__file__).parent), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    for chosen in (1, 2):
        command = [sys.executable, "-c", program]
        ran = subprocess.run(
            command, env=environment | {"WEAVER_MUTANT": str(chosen)}, stdout=subprocess.PIPE, text=True, check=True
        )
        assert ran.stdout == {1: "10.0\n", 2: "6.0\n"}[chosen]


def test_what_has_not_changed_is_kept(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    before, result = toy.regions(), toy.root / "docs/proof/mutants.json"
    assert {one["date"] for one in before.values()} == {datetime.date.today().isoformat()}
    result.write_text(re.sub(r'"date": "[\d-]+"', '"date": "2026-11-21"', result.read_text(encoding="utf-8")))
    (toy.root / "docs/build/mutate/progress.json").unlink()
    source = (toy.root / "csrc/toy.cpp").read_text(encoding="utf-8")
    toy.write("csrc/toy.cpp", "\n" + source)
    mutate.main(toy.configuration, [])
    assert "0 listings tried" in capsys.readouterr().out
    after = toy.regions()["toy-unseen"]
    assert after["first"] == before["toy-unseen"]["first"] + 1
    assert {one["line"] for one in after["survived"]} == {after["first"]}
    # Nothing was tried, so each entry has the day of its own trial.
    assert {one["date"] for one in toy.regions().values()} == {"2026-11-21"}
    toy.write("csrc/toy.cpp", source)


@pytest.mark.long
def test_a_source_that_is_not_tried_stays_as_it_was_compiled(toy: Toy) -> None:
    """Only sources under trial are recompiled, and mutants keep their numbers."""
    compiled = toy.root / "build/mutate/tree/torch_openreg/__init__.py"
    before = compiled.read_bytes()
    assert b"weaver_mutant(" in before
    mutate.main(toy.configuration, ["--region", "toy-count"])
    assert compiled.read_bytes() == before
    assert toy.regions()["toy-count"]["killed"] == 7
    source = (toy.root / "torch_openreg/__init__.py").read_text(encoding="utf-8")
    toy.write("torch_openreg/__init__.py", source + "# changed\n")
    mutate.main(toy.configuration, ["--region", "toy-count"])
    assert compiled.read_text(encoding="utf-8") == source + "# changed\n"
    toy.write("torch_openreg/__init__.py", source)


@pytest.mark.long
def test_an_example_may_reach_the_mutants_of_an_earlier_run(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those with larger numbers than any mutant that is shown now."""
    page, result = toy.root / "docs/source/index.md", toy.root / "docs/proof/mutants.json"
    text, before = page.read_text(encoding="utf-8"), result.read_text(encoding="utf-8")
    mutate.main(toy.configuration, ["--region", "toy-small"])
    page.write_text(text.replace(show("torch_openreg/__init__.py", "toy-small"), ""), encoding="utf-8")
    monkeypatch.setattr(mutate.floor, "raise_floor", lambda configuration: None)  # refuses a region that no page shows
    mutate.main(toy.configuration, ["--region", "toy-count"])
    assert b"weaver_mutant(" in (toy.root / "build/mutate/tree/torch_openreg/__init__.py").read_bytes()
    assert toy.regions()["toy-count"]["killed"] == 7
    page.write_text(text, encoding="utf-8")
    result.write_text(before, encoding="utf-8")


@pytest.mark.long
def test_a_source_that_is_left_out_from_now_on_loses_its_mutants(toy: Toy) -> None:
    compiled = toy.root / "build/mutate/tree/torch_openreg/__init__.py"
    source, result = toy.root / "torch_openreg/__init__.py", toy.root / "docs/proof/mutants.json"
    before = result.read_text(encoding="utf-8")
    mutate.main(toy.configuration, ["--region", "toy-small"])
    assert b"weaver_mutant(" in compiled.read_bytes()
    toy.configure(**SETTINGS, mutants={"left_out": ["torch_openreg/__init__.py"]})
    mutate.main(toy.configuration, ["--region", "toy-count"])
    assert compiled.read_bytes() == source.read_bytes()
    toy.configure(**SETTINGS)
    result.write_text(before, encoding="utf-8")


@pytest.mark.long
def test_a_kill_is_remembered_while_its_example_is_there(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    page, result = toy.root / "docs/source/index.md", toy.root / "docs/proof/mutants.json"
    text, before = page.read_text(encoding="utf-8"), result.read_text(encoding="utf-8")
    # One example now checks a result, and one is gone; the others are unchanged.
    changed = text.replace(">>> _ = toy.unseen(1)\n", ">>> toy.unseen(1)\n8\n")
    page.write_text(changed.replace(">>> [toy.deep(), toy.deep()]\n[6, 6]\n", ""), encoding="utf-8")
    mutate.main(toy.configuration, [])
    said = capsys.readouterr().out
    # Three with survivors, and the one whose example is gone; the results of the others hold.
    assert "-- 1 mutants were killed by examples that are still there" in said
    assert "4 listings tried" in said
    after = toy.regions()
    assert after["toy-unseen"]["survived"] == []
    assert after["toy-guard"]["killed"] == 0
    assert after["toy-count"]["killed"] == 7
    page.write_text(text, encoding="utf-8")
    result.write_text(before, encoding="utf-8")


@pytest.mark.long
def test_a_new_excuse_needs_no_run(toy: Toy) -> None:
    result = (toy.root / "docs/proof/mutants.json").read_text(encoding="utf-8")
    change = {
        "line": PYTHON.splitlines()[1].strip(),
        "before": "n < 10",
        "after": "n <= 10",
        "path": "torch_openreg/__init__.py",
    }
    toy.write("docs/proof/equivalent.toml", excuse() + excuse(**change))
    mutate.main(toy.configuration, [])
    small = toy.regions()["toy-small"]
    assert [one["operator"] for one in small["survived"]] == ["literal"]
    assert [one["operator"] for one in small["equivalent"]] == ["boundary"]
    toy.write("docs/proof/equivalent.toml", excuse())
    toy.write("docs/proof/mutants.json", result)


@pytest.mark.long
def test_excuses_must_hold(toy: Toy) -> None:
    for change, message in (
        ({"line": "if (value < limit) {"}, "does not exist"),
        ({"reason": " "}, "without a reason"),
    ):
        toy.write("docs/proof/equivalent.toml", excuse(**change))
        with pytest.raises(Fault, match=message):
            mutate.main(toy.configuration, [])
    killed = excuse(line="--n;", operator="statement removed", before="--n;", after="")
    toy.write("docs/proof/equivalent.toml", excuse() + killed)
    with pytest.raises(Fault, match="excuses 1 mutants that an example kills"):
        mutate.main(toy.configuration, ["--region", "toy-count"])
    toy.write("docs/proof/equivalent.toml", excuse())


@pytest.mark.long
def test_a_sample_finds_a_result_that_does_not_hold(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    result = toy.root / "docs/proof/mutants.json"
    text = result.read_text(encoding="utf-8")
    mutate.main(toy.configuration, ["--sample", "2", "--seed", "1"])
    assert "2 of 23 mutants tried (seed 1), all killed" in capsys.readouterr().out
    data = json.loads(text)
    for entry in data["regions"]:
        if entry["region"] == "toy-unseen":
            entry.update(survived=[], killed=2)
    result.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(Fault, match=r"2 of .* mutants survive"):
        mutate.main(toy.configuration, ["--sample", "100"])
    assert "csrc/toy.cpp" in capsys.readouterr().out
    result.write_text(text, encoding="utf-8")


@pytest.mark.long
def test_of_a_page_that_fails_without_a_mutant_nothing_is_tried(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    page = toy.root / "docs/source/index.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("[0, 3]", "[0, 4]"), encoding="utf-8")
    before = toy.regions()
    with pytest.raises(Fault, match=r"1 pages fail without a mutant, and their listings were not tried: index"):
        mutate.main(toy.configuration, ["--region", "toy-small"])
    assert re.search(r"index.md:.*fails without a mutant", capsys.readouterr().out)
    assert toy.regions() == before
    page.write_text(text, encoding="utf-8")


def test_a_process_that_ends_for_another_reason_is_no_kill(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    page, short = toy.root / "docs/source/index.md", toy.root / "build/short_of_memory"
    text, before = page.read_text(encoding="utf-8"), toy.regions()
    call = f"os.kill(os.getpid(), 9) if os.path.exists({str(short)!r}) else "
    changed = text.replace("import ctypes, torch_openreg", "import ctypes, os, torch_openreg")
    page.write_text(changed.replace("_ = toy.unseen(1)", f"_ = {call}toy.unseen(1)"), encoding="utf-8")
    try_mutant = trial.Trial.try_mutant

    def short_of_memory(self: trial.Trial, *arguments: Any) -> trial.Verdict:
        short.touch()
        return try_mutant(self, *arguments)

    monkeypatch.setattr(trial.Trial, "try_mutant", short_of_memory)
    with pytest.raises(Fault, match=r"(?s)index.md:\d+: failed without a mutant:.*killed by SIGKILL in this example"):
        mutate.main(toy.configuration, ["--region", "toy-unseen"])
    assert toy.regions() == before
    short.unlink()
    page.write_text(text, encoding="utf-8")


@pytest.mark.long
def test_an_example_that_fails_every_second_time_kills_nothing(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    page, last, result = (toy.root / name for name in ("docs/source/index.md", "build/last", "docs/proof/mutants.json"))
    text, before = page.read_text(encoding="utf-8"), result.read_text(encoding="utf-8")
    changed = text.replace("import ctypes, torch_openreg", "import ctypes, pathlib, torch_openreg")
    changed = changed.replace(
        ">>> _ = toy.unseen(1)\n",
        f""">>> last = pathlib.Path({str(last)!r})
>>> alternates = toy.unseen(1) and last.with_name("trial").exists()
>>> not alternates or (last.unlink() is None if last.exists() else last.touch())
True
""",
    )
    page.write_text(changed, encoding="utf-8")
    try_mutant, tried = trial.Trial.try_mutant, []

    def alternating(self: trial.Trial, *arguments: Any) -> trial.Verdict:
        last.with_name("trial").touch()
        tried.append(try_mutant(self, *arguments))
        return tried[-1]

    monkeypatch.setattr(trial.Trial, "try_mutant", alternating)
    monkeypatch.setattr(mutate, "workers", lambda: 1)
    mutate.main(toy.configuration, ["--region", "toy-unseen"])
    assert [(verdict.killed, verdict.reached) for verdict in tried] == [(False, True)] * 2
    assert toy.regions()["toy-unseen"]["killed"] == 0
    assert not last.exists()  # each mutant was tried twice
    for file in (last.with_name("trial"), toy.root / "docs/build/mutate/progress.json"):
        file.unlink()
    page.write_text(text, encoding="utf-8")
    result.write_text(before, encoding="utf-8")


def outcome(region: dict[str, Any]) -> tuple[object, ...]:
    """How many mutants of a listing were killed or do not compile, and which were not."""
    alive = ([mutant["id"] for mutant in region[key]] for key in ("survived", "equivalent"))
    return region["killed"], region["refused"], *alive


@pytest.mark.long
def test_a_run_ends_after_its_minutes(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    """What is finished is written. Of the rest, earlier results stay, and the next run tries what has none."""
    before, file = toy.regions(), toy.root / "docs/proof/mutants.json"
    mutate.main(toy.configuration, ["--all", "--minutes", "0"])
    assert re.search(r"\d+ listings are left for the next run", capsys.readouterr().out)
    # Not the lines: an earlier test may have moved them, and has left its results.
    assert {name: outcome(one) for name, one in toy.regions().items()} == {
        name: outcome(one) for name, one in before.items()
    }
    (toy.root / "docs/build/mutate/progress.json").unlink()
    data = json.loads(file.read_text(encoding="utf-8"))
    kept = {entry["region"] for entry in data["regions"][:3]}
    file.write_text(json.dumps(data | {"regions": data["regions"][:3]}), encoding="utf-8")
    mutate.main(toy.configuration, ["--minutes", "0"])
    left = len(before) - len(toy.regions())
    assert left > 0
    assert toy.regions().keys() >= kept
    assert f"{left} listings are left for the next run" in capsys.readouterr().out
    mutate.main(toy.configuration, [])
    assert f"{left} listings tried" in capsys.readouterr().out
    assert toy.regions().keys() == before.keys()


def test_unknown_names_are_refused(toy: Toy) -> None:
    with pytest.raises(Fault, match=r"no region nowhere; there are csrc/toy.cpp, .*toy-count"):
        mutate.main(toy.configuration, ["--region", "nowhere"])
    with pytest.raises(Fault, match="no page nowhere; there are index"):
        mutate.main(toy.configuration, ["--page", "nowhere"])
