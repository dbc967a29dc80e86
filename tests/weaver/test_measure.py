"""What `make proof` keeps of an earlier result when it measures only some pages."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from weaver.__main__ import run as weave
from weaver.configuration import Configuration, Installed, Measure
from weaver.fault import Fault
from weaver.proof import clang, floor, measure
from weaver.proof.lines import CLASSES
from weaver.proof.measurement import Measurement, Ran
from weaver.proof.planned import Page
from weaver.sources.installed import release
from weaver.sources.listing import Listing


def page(name: str, digest: str, listings: list[Listing] | None = None) -> Page:
    return Page(name=name, file=f"docs/source/{name}.md", digest=digest, listings=listings or [], whole=[], blocks=[])


def test_a_result_of_another_release_or_with_other_classes_is_not_kept(tmp_path: Path) -> None:
    configuration = Configuration(tmp_path, installed=Installed("torch"))
    assert measure.read_earlier(configuration) == {}
    file = tmp_path / "docs/proof/lines.json"
    file.parent.mkdir(parents=True)
    head = {"torch": release("torch"), "classes": CLASSES}
    for changed, kept in (({}, {"page": 1}), ({"torch": "2.12"}, {}), ({"classes": CLASSES - 1}, {})):
        file.write_text(json.dumps(head | changed | {"pages": {"page": 1}}), encoding="utf-8")
        assert measure.read_earlier(configuration) == kept


def test_what_is_not_measured_has_the_usual_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = Configuration(tmp_path, executed=("examples",))
    for number, (given, usual) in enumerate((("", "c++"), ("clang++ -O1", "clang++ -O1"))):
        monkeypatch.setenv("CXX", given)
        measurement = Measurement(configuration)
        measurement.work = tmp_path / str(number)
        measurement._write_compiler(clang.Clang("clang", "profdata", "cov"))
        assert f' exec {usual} "$@" ;;' in (measurement.work / "cxx").read_text(encoding="utf-8")


class Run:
    """A run over pages without listings, some of which fail."""

    def __init__(self, folder: Path, failing: set[str]) -> None:
        self.configuration = Configuration(folder, package=("csrc",), commands={"proof": "make proof"})
        self.sandbox = SimpleNamespace(tree=folder)
        self.failing = failing
        self.ran: list[str] = []

    def prepare(self) -> None:
        """Builds nothing."""

    def run(self, page: Page) -> Ran:
        self.ran.append(page.name)
        if page.name in self.failing:
            raise Fault(f"{page.file}:1: not as expected")
        return Ran(1.0, {1: {"csrc/kernels/loops/add.cpp": {1}}} if page.name == "good" else {})


def test_only_pages_whose_result_is_not_current_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [page("bad", "1"), page("good", "2")]
    raised: list[str] = []
    monkeypatch.setattr(measure, "read_pages", lambda configuration, folder, strict: pages)
    monkeypatch.setattr(floor, "raise_floor", lambda configuration, pages: raised.append("floor"))
    source = tmp_path / "csrc/kernels/loops/add.cpp"
    source.parent.mkdir(parents=True)
    source.write_text("int a;\n", encoding="utf-8")

    def run(*failing: str, names: list[str] | None = None, every: bool = False, aged: bool = False) -> list[str]:
        one = Run(tmp_path, set(failing))
        measure._measure(one, names, every=every, aged=aged)  # type: ignore[arg-type]
        return one.ran

    with pytest.raises(Fault, match="make proof --page bad"):
        run("bad")
    assert "docs/source/bad.md:1: not as expected" in capsys.readouterr().out
    assert not raised
    assert run() == ["bad"]
    assert raised == ["floor"]
    assert run() == []
    assert "make proof: 0 of 2 pages measured" in capsys.readouterr().out
    source.write_text("int b;\n", encoding="utf-8")
    assert run() == []
    assert run(aged=True) == ["good"]
    assert "good: is aged" in capsys.readouterr().out
    assert run(aged=True) == []
    assert run(names=["bad"]) == ["bad"]
    assert set(run(every=True)) == {"bad", "good"}


def test_a_project_without_a_measured_page_has_a_result_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "read_pages", lambda configuration, folder, strict: [])
    (tmp_path / "docs/proof").mkdir(parents=True)
    measure._measure(Run(tmp_path, set()), None)  # type: ignore[arg-type]
    assert json.loads((tmp_path / "docs/proof/lines.json").read_text(encoding="utf-8"))["pages"] == {}
    assert "make proof: 0 of 0 pages measured" in capsys.readouterr().out


def test_a_result_that_cannot_be_read_is_a_fault_and_a_defect_of_ours_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "read_pages", lambda configuration, folder, strict: [])
    (tmp_path / "docs/proof").mkdir(parents=True)
    (tmp_path / "docs/proof/lines.json").write_text("{", encoding="utf-8")
    with pytest.raises(Fault, match=r"^lines.json is no JSON: Expecting property name"):
        weave(Configuration(tmp_path), "proof", [])

    def defect(configuration: Configuration, arguments: list[str]) -> None:
        raise KeyError("pages")

    monkeypatch.setattr(measure, "main", defect)
    with pytest.raises(KeyError, match="pages"):
        weave(Configuration(tmp_path), "proof", [])


def test_a_sample_measures_aged_pages_first_and_finds_lines_that_are_executed_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add, loop = tmp_path / "csrc/kernels/loops/add.cpp", tmp_path / "csrc/loop.h"
    add.parent.mkdir(parents=True)
    add.write_text("int a() {\n  return 1;\n}\n", encoding="utf-8")
    loop.write_text("int b;\n", encoding="utf-8")
    listing = Listing("csrc/kernels/loops/add.cpp", 1, 3, "add")
    pages = [page("shows", "1", [listing]), page("other", "2"), page("third", "3")]
    monkeypatch.setattr(measure, "read_pages", lambda configuration, folder, strict=True: pages)
    monkeypatch.setattr(floor, "raise_floor", lambda configuration, pages: None)

    class Sampled(Run):
        """A run in which ``shows`` executes the header and the lines ``executed`` of its listing."""

        executed = frozenset({1, 2, 3})

        def __init__(self) -> None:
            super().__init__(tmp_path, set())
            self.counted, self.registrations = {listing.path: {1, 2, 3}}, {listing.path: set[int]()}

        def run(self, page: Page) -> Ran:
            self.ran.append(page.name)
            found = {listing.path: set(self.executed), "csrc/loop.h": {1}} if page.name == "shows" else {}
            return Ran(1.0, {1: found})

    measure._measure(Sampled(), None)  # type: ignore[arg-type]
    result = (tmp_path / "docs/proof/lines.json").read_bytes()
    loop.write_text("int c;\n", encoding="utf-8")
    for seed in range(5):
        one = Sampled()
        measure.sample(one, 1, seed)  # type: ignore[arg-type]
        assert one.ran == ["shows"]
    assert "1 of 3 pages measured (seed 4), no line missed" in capsys.readouterr().out
    Sampled.executed = frozenset({1, 3})
    with pytest.raises(Fault, match="make proof: 1 displayed lines are executed no more"):
        measure.sample(Sampled(), 3, 0)  # type: ignore[arg-type]
    assert "csrc/kernels/loops/add.cpp:2: shown by shows, executed by no example there" in capsys.readouterr().out
    assert (tmp_path / "docs/proof/lines.json").read_bytes() == result


def test_a_linked_file_is_complete_when_it_appears_among_the_objects(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, script in {
        "clang": 'while [ $# -gt 1 ]; do if [ "$1" = -o ]; then echo linked > "$2"; fi; shift; done',
        # As it is while the file is being copied.
        "cp": 'test -e started || { touch started; exec /bin/cp "$@"; }; head -c 3 "$1" > "$2"; exit 1',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    measurement = Measurement(Configuration(tmp_path, executed=("examples",)))
    measurement._write_compiler(clang.Clang(str(programs / "clang"), "", ""))
    for _ in range(2):
        command = [str(measurement.work / "cxx"), "examples/a.cpp", "-o", "a"]
        path = f"{programs}:{os.environ['PATH']}"
        subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": path}, check=False)
        texts = [file.read_text(encoding="utf-8") for file in (measurement.work / "objects").iterdir()]
        assert texts == ["linked\n"]


def test_a_page_depends_on_the_inputs_of_the_code_that_it_executes(tmp_path: Path) -> None:
    for path in ("csrc/loop.cpp", "csrc/cache.cpp", "csrc/table.toml", "csrc/native/loops/abs.cl"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("a = 1\n", encoding="utf-8")
    inputs = {"csrc/lo*": ("csrc/table.toml",), "csrc/cache.cpp": ("csrc/**/*.cl",)}
    configuration = Configuration(tmp_path, measure=Measure(inputs=inputs))
    for executed, expected in (
        ("csrc/loop.cpp", ["csrc/loop.cpp", "csrc/table.toml"]),
        ("csrc/cache.cpp", ["csrc/cache.cpp", "csrc/native/loops/abs.cl"]),
    ):
        assert list(Ran(1.0, {1: {executed: {1}}}).sources(configuration, tmp_path)) == expected
