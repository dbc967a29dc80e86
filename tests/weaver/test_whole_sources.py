"""The files of a page are listed at its end, each with its own page and copy button."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest
from weaver.pages.whole_sources import purpose

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository


def test_a_file_is_a_link_with_its_length_and_what_it_is_for(repository: Repository) -> None:
    repository.add("```{whole-sources}\ncsrc/hooks.cpp\n```\n")
    result = repository.build()
    assert result.status == 0, result.warnings
    page = (result.output / "index.html").read_text(encoding="utf-8")
    listed = page[page.index('<ul class="whole-sources') :]
    assert 'href="sources/csrc/hooks.cpp.html"' in listed
    text = re.sub(r"<[^>]+>", "", listed[: listed.index("</ul>")])
    assert " ".join(text.split()) == "csrc/hooks.cpp 7 lines The hooks."


def test_the_button_of_a_source_copies_it_without_what_is_for_the_guide(repository: Repository) -> None:
    repository.write("csrc/plain.h", "int plain();\n")
    result = repository.build(suppress_warnings=["weaver.narrated"])
    assert result.status == 0, result.warnings
    page = (result.output / "sources/csrc/hooks.cpp.html").read_text(encoding="utf-8")
    (copied,) = re.findall(r'<pre class="copied" hidden id="copied-1" title="Copy the file">(.*?)</pre>', page, re.S)
    text = html.unescape(copied)
    assert text.startswith('// The hooks.\n#include "hooks.h"\n\n/// Starts the device.\n')
    assert "LITERALINCLUDE" in page.replace(copied, "")
    assert "LITERALINCLUDE" not in text
    assert 'class="copied"' not in (result.output / "sources/csrc/plain.h.html").read_text(encoding="utf-8")


def test_a_file_that_a_page_links_to_has_a_page(repository: Repository) -> None:
    repository.write("csrc/kernel.cl", "// What the device compiles.\nkernel void nothing() {}\n")
    repository.write("csrc/README.md", "# A map\n")
    repository.add("The kernel is {source}`csrc/kernel.cl`, and {source}`csrc/README.md` is a map.\n")
    result = repository.build(suppress_warnings=["weaver.narrated"])
    assert result.status == 0, result.warnings
    for name in ("kernel.cl", "README.md"):
        assert f'href="sources/csrc/{name}.html"' in (result.output / "index.html").read_text(encoding="utf-8")
        assert (result.output / f"sources/csrc/{name}.html").is_file()


def test_a_file_of_an_unknown_language_is_refused(repository: Repository) -> None:
    repository.write("csrc/table.xyz", "1\n")
    repository.add("{source}`csrc/table.xyz`\n")
    assert "csrc/table.xyz is of a language that the weaver does not know" in repository.build().warnings


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        ("a.cpp", "// The pool: blocks\n// of memory. Called by all.\nint x;\n", "The pool: blocks of memory."),
        ("a.h", "#pragma once\n// Late.\n", ""),
        ("a.cpp", "int x;\n// Below.\n", ""),
        ("a.py", '"""Streams, and\nevents.\n\nMore.\n"""\n', "Streams, and events."),
        ("a.py", "x = 1\n", ""),
        ("a.pyi", '"""What is bound."""\n', "What is bound."),
        ("a.sh", "#!/bin/sh\n# Runs it.\n", "Runs it."),
        ("CMakeLists.txt", "# What is built. Also the rest.\nproject(x)\n", "What is built."),
    ],
)
def test_the_purpose_is_the_first_sentence_of_the_comment_at_the_top(path: str, text: str, says: str) -> None:
    assert purpose(path, text.splitlines()) == says
