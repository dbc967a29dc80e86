"""What `make proof` keeps of an earlier result when it measures some of the pages."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from environment import Fault
from proof import floor, measure
from proof.pages import Page

from docs._ext import binding


def page(name: str, digest: str) -> Page:
    return Page(name=name, file=f"docs/source/{name}.md", digest=digest, listings=[], whole=[], blocks=[])


def test_of_pages_that_have_not_changed_the_result_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    pages = [page("same", "1"), page("changed", "2"), page("new", "3")]
    assert measure.read_earlier(pages, "code") == {}
    before = {"same": "1", "changed": "0", "gone": "4"}
    said = {name: {"digest": digest, "listings": []} for name, digest in before.items()}
    file = tmp_path / measure.RESULT
    file.parent.mkdir(parents=True)
    for code, torch, kept in (
        ("code", binding.torch_version(), {"same": said["same"]}),
        ("other code", binding.torch_version(), {}),
        ("code", "2.12", {}),
    ):
        file.write_text(json.dumps({"code": code, "torch": torch, "pages": said}), encoding="utf-8")
        assert measure.read_earlier(pages, "code") == kept


class Run:
    """A run over pages without listings, of which some fail."""

    def __init__(self, folder: Path, failing: set[str]) -> None:
        self.sandbox = SimpleNamespace(tree=folder)
        self.failing = failing

    def prepare(self) -> None:
        """Nothing has to be built."""

    def run(self, page: Page) -> measure.Measured:
        if page.name in self.failing:
            raise Fault(f"{page.file}:1: not as expected")
        return measure.Measured(1.0)


def test_a_page_that_fails_does_not_cost_the_result_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [page("bad", "1"), page("good", "2")]
    raised: list[str] = []
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    monkeypatch.setattr(measure, "read_pages", lambda folder, strict: pages)
    monkeypatch.setattr(binding, "code_digest", lambda tree: "code")
    monkeypatch.setattr(floor, "raise_floor", lambda pages: raised.append("floor"))
    (tmp_path / measure.WORK).mkdir(parents=True)

    def measured() -> set[str]:
        said: dict[str, object] = json.loads((tmp_path / measure.RESULT).read_text(encoding="utf-8"))["pages"]
        return set(said)

    with pytest.raises(Fault, match="make proof ARGS='--page bad'"):
        measure._measure(Run(tmp_path, {"bad"}), None)  # type: ignore[arg-type]
    assert "docs/source/bad.md:1: not as expected" in capsys.readouterr().out
    assert measured() == {"good"}
    assert not raised
    measure._measure(Run(tmp_path, set()), ["bad"])  # type: ignore[arg-type]
    assert measured() == {"bad", "good"}
    assert raised == ["floor"]
