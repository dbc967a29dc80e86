"""What weaver.toml must be: each fault names the file, the key, what is expected and what was given."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from weaver.configuration import _KINDS, _TABLES, Configuration, load
from weaver.fault import Fault


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"sources = [", "weaver.toml: expected TOML, got a syntax error: Invalid value (at end of document)"),
        (b'origin = "\xff"', "weaver.toml: expected UTF-8, got the byte 0xff at position 10; save the file as UTF-8"),
        (b"run = 5", "weaver.toml: run: expected a table, got 5"),
        (b'sources = "csrc"', 'weaver.toml: sources: expected a list of strings, got "csrc"'),
        (b'sources = ["csrc", 1]', 'weaver.toml: sources: expected a list of strings, got ["csrc", 1]'),
        (b"origin = 2026-11-29", 'weaver.toml: origin: expected a string, got "2026-11-29"'),
        (b"every_file_has_a_chapter = 1", "weaver.toml: every_file_has_a_chapter: expected true or false, got 1"),
        (b"commands = []", "weaver.toml: commands: expected a table of strings, got []"),
        (b"[longest]\nwords = true", "weaver.toml: [longest]: words: expected a whole number, got true"),
        (b'[run]\npage_seconds = "9"', 'weaver.toml: [run]: page_seconds: expected a number, got "9"'),
        (
            b'[build]\ncommands = ["cmake"]',
            'weaver.toml: [build]: commands: expected a list of lists of strings, got ["cmake"]',
        ),
        (
            b'[closure]\ncompanions = [["a"]]',
            'weaver.toml: [closure]: companions: expected a list of pairs of strings, got [["a"]]',
        ),
        (
            b'[measure]\ninputs = { "a.cpp" = "b.toml" }',
            'weaver.toml: [measure]: inputs: expected a table of lists of strings, got {"a.cpp": "b.toml"}',
        ),
        (
            b'[mutants]\nregistrations = { A = "1" }',
            'weaver.toml: [mutants]: registrations: expected a table of whole numbers, got {"A": "1"}',
        ),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, text: bytes, said: str) -> None:
    (tmp_path / "weaver.toml").write_bytes(text)
    with pytest.raises(Fault, match=f"^{re.escape(said)}$"):
        load(tmp_path)


def test_a_right_value_is_read(tmp_path: Path) -> None:
    (tmp_path / "weaver.toml").write_text(
        'sources = ["csrc"]\n[run]\npage_seconds = 20\n[build]\ncommands = [["cmake", "-B"]]\n[longest]\nwords = 9\n'
        '[measure]\ninputs = { "a" = ["b"] }\n'
        '[closure]\ncompanions = [["a", "b"]]\n[mutants]\nregistrations = { A = 1 }\nenvironment = { B = "1" }\n'
    )
    read = load(tmp_path)
    assert (read.sources, read.run.page_seconds, read.build.commands) == (("csrc",), 20, (("cmake", "-B"),))
    assert read.measure.inputs == {"a": ("b",)}
    assert (read.closure.companions, read.mutants.registrations) == ((("a", "b"),), {"A": 1})


def test_the_type_of_each_field_is_checked() -> None:
    tables = {name: kind.__name__ for name, kind in _TABLES.items()}
    for kind in (Configuration, *_TABLES.values()):
        for one in fields(kind):
            assert one.type in _KINDS or one.name == "root" or tables[one.name] == one.type, one
