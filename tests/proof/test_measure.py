"""What `make proof` keeps of an earlier result when it measures some of the pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from proof import measure
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
