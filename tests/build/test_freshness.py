"""A digest changes with the code, and not with comments and layout of C++."""

from __future__ import annotations

from pathlib import Path

import freshness
import pytest

CODE = 'const char* kName = "a";  // the first\nint f();\n'


def digest(folder: Path, text: str, name: str = "f.cpp") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return freshness.digest([name], folder)


@pytest.mark.parametrize("same", [CODE.replace("first", "second"), CODE.replace("\n", "\n\n  // more\n")])
def test_comments_and_layout_of_cpp_do_not_count(tmp_path: Path, same: str) -> None:
    assert digest(tmp_path, same) == digest(tmp_path, CODE)


def test_what_looks_like_a_comment_in_a_string_counts(tmp_path: Path) -> None:
    one, other = (digest(tmp_path, CODE.replace('"a"', f'"https://{name}"')) for name in ("a", "b"))
    assert one != other


def test_of_other_files_everything_counts(tmp_path: Path) -> None:
    assert digest(tmp_path, "a  // b\n", "f.py") != digest(tmp_path, "a\n", "f.py")
