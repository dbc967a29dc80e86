"""The glossary: each term once, with a chapter that exists, and pages that use only what it defines."""

from __future__ import annotations

import re
from collections import Counter

from tests.weaver.conftest import ROOT

PAGES = ROOT / "docs" / "source"
GLOSSARY = PAGES / "reference" / "glossary.md"
_BODY = re.compile(r"^```\{glossary\}\n:sorted:\n\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ROLE = re.compile(r"\{(doc|ref|term)\}`(?:[^`<]*<)?([^`<>]+)>?`")


def entries() -> list[tuple[list[str], str]]:
    """The terms of each entry, and their definition."""
    body = _BODY.search(GLOSSARY.read_text(encoding="utf-8"))
    assert body, "the page has no sorted glossary"
    found = []
    for entry in body[1].strip("\n").split("\n\n"):
        lines = entry.splitlines()
        terms = [line.replace("`", "") for line in lines if not line.startswith(" ")]
        found.append((terms, " ".join(line.strip() for line in lines[len(terms) :])))
    return found


def references(text: str, *roles: str) -> list[str]:
    """The targets that a text names with one of the roles, without their link texts."""
    return [" ".join(target.split()) for role, target in _ROLE.findall(text) if role in roles]


def test_every_term_is_defined_once() -> None:
    terms = Counter(term.lower() for terms, _ in entries() for term in terms)
    assert not [term for term, count in terms.items() if count > 1]


def test_every_definition_ends_with_a_chapter_that_exists() -> None:
    pages = [file.read_text(encoding="utf-8") for file in PAGES.rglob("*.md")]
    labels = {label for page in pages for label in re.findall(r"^\(([\w-]+)\)=$", page, re.MULTILINE)}
    for terms, definition in entries():
        assert re.search(r"[.:] See \{(?:doc|ref)\}`[^`]+`\.$", definition), f"{terms[0]}: names no chapter"
        for name in references(definition, "doc"):
            assert (PAGES / f"{name.lstrip('/')}.md").is_file(), f"{terms[0]}: there is no page {name}"
        missing = set(references(definition, "ref")) - labels
        assert not missing, f"{terms[0]}: no page has the label {missing}"


def test_pages_use_terms_of_the_glossary_once_each() -> None:
    defined = {term.lower() for terms, _ in entries() for term in terms}
    for file in sorted(PAGES.rglob("*.md")):
        used = Counter(term.lower() for term in references(file.read_text(encoding="utf-8"), "term"))
        assert set(used) <= defined, f"{file.name}: not in the glossary: {set(used) - defined}"
        assert not [term for term, count in used.items() if count > 1], f"{file.name}: a term is linked twice"
