"""What `make proof` keeps of an earlier result when it measures some of the pages."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from weaver.configuration import Configuration, Installed
from weaver.fault import Fault
from weaver.proof import floor, measure
from weaver.proof.planned import Page
from weaver.sources.installed import release


def page(name: str, digest: str) -> Page:
    return Page(name=name, file=f"docs/source/{name}.md", digest=digest, listings=[], whole=[], blocks=[])


def test_a_result_of_another_release_is_not_kept(tmp_path: Path) -> None:
    configuration = Configuration(tmp_path, installed=Installed("torch"))
    assert measure.read_earlier(configuration) == {}
    file = tmp_path / "docs/proof/lines.json"
    file.parent.mkdir(parents=True)
    for torch, kept in ((release("torch"), {"page": 1}), ("2.12", {})):
        file.write_text(json.dumps({"torch": torch, "pages": {"page": 1}}), encoding="utf-8")
        assert measure.read_earlier(configuration) == kept


class Run:
    """A run over pages without listings, of which some fail."""

    def __init__(self, folder: Path, failing: set[str]) -> None:
        self.configuration = Configuration(folder, package=("csrc",), commands={"proof": "make proof"})
        self.sandbox = SimpleNamespace(tree=folder)
        self.failing = failing
        self.ran: list[str] = []

    def prepare(self) -> None:
        """Nothing has to be built."""

    def run(self, page: Page) -> measure.Measured:
        self.ran.append(page.name)
        if page.name in self.failing:
            raise Fault(f"{page.file}:1: not as expected")
        return measure.Measured(1.0, {1: {"csrc/kernels/loops/add.cpp": {1}}} if page.name == "good" else {})


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

    def run(*failing: str, names: list[str] | None = None, every: bool = False) -> list[str]:
        one = Run(tmp_path, set(failing))
        measure._measure(one, names, every=every)  # type: ignore[arg-type]
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
    assert run() == ["good"]
    assert (
        "good: csrc/kernels/loops/add.cpp, which it executes, changed since it was measured" in capsys.readouterr().out
    )
    assert run(names=["bad"]) == ["bad"]
    assert set(run(every=True)) == {"bad", "good"}
