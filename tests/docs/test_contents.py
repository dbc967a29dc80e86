"""The table of chapters and the contents of the site agree."""

from __future__ import annotations

import re

from tests.weaver.conftest import ROOT

PAGES = ROOT / "docs" / "source"
_TREE = re.compile(r"^```\{toctree\}\n((?::[^\n]*\n)*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def contents() -> dict[str, list[str]]:
    """The pages of the site by caption, in their order."""
    found = {}
    for options, pages in _TREE.findall((PAGES / "index.md").read_text(encoding="utf-8")):
        caption = re.search(r"^:caption: (.*)$", options, re.MULTILINE)
        assert caption, f"without a caption: {pages.split()}"
        found[caption[1]] = pages.split()
    return found


def test_every_chapter_has_a_row_in_its_group() -> None:
    index = (PAGES / "accelerator" / "index.md").read_text(encoding="utf-8")
    sections = re.split(r"^## (.*)$", index, flags=re.MULTILINE)[1:]
    rows = {
        title: [f"accelerator/{name}" for name in re.findall(r"^\| \{doc\}`(\w+)` \|", text, re.MULTILINE)]
        for title, text in zip(sections[::2], sections[1::2], strict=True)
    }
    groups = {caption: pages for caption, pages in contents().items() if "accelerator/index" not in pages}
    assert {title: names for title, names in rows.items() if names} == groups
    assert list(rows)[: len(groups)] == list(groups), "the order of the groups"


def test_every_page_is_in_the_contents_once() -> None:
    listed = [page for pages in contents().values() for page in pages]
    there = {file.relative_to(PAGES).with_suffix("").as_posix() for file in PAGES.rglob("*.md")} - {"index"}
    assert sorted(listed) == sorted(there | {"genindex"})  # Sphinx writes the index


def test_the_steps_name_the_areas_of_the_kit() -> None:
    rows = re.findall(r"^\|.*\|.*\| (`.*`) \|.*\|$", (PAGES / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {area for row in rows for area in re.findall(r"`(\w+)`", row)}
    kit = ROOT / "conformance" / "accelerator_conformance"
    assert named == {file.stem.removeprefix("test_") for file in kit.glob("test_*.py")}


def test_the_kits_name_chapters_that_exist() -> None:
    """A failed check names the chapter with its cure, as a link."""
    python = ROOT / "conformance" / "accelerator_conformance"
    patterns = {
        **dict.fromkeys(sorted(python.glob("*.py")), r'\bchapter\("(\w+)"\)|CHAPTER = "(\w+)"'),
        ROOT / "conformance" / "driver" / "check.cpp": r'\{\w+_checks, "(\w+)"\}',
    }
    named = {
        name: file.relative_to(ROOT).as_posix()
        for file, pattern in patterns.items()
        for found in re.finditer(pattern, file.read_text(encoding="utf-8"))
        for name in found.groups()
        if name
    }
    assert {"amp", "driver_sharing", "nn_contracts"} <= set(named)
    there = {page.stem for page in (PAGES / "accelerator").glob("*.md")}
    assert {name: file for name, file in named.items() if name not in there} == {}
