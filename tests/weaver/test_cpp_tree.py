"""tree-sitter parses our sources."""

from __future__ import annotations

from pathlib import Path

from tree_sitter import Query, QueryCursor
from weaver.sources.cpp_tree import LANGUAGE, parse

ROOT = Path(__file__).resolve().parents[2]
ERRORS = Query(LANGUAGE, "(ERROR) @error")
# The files still have their parts, since most of the errors are inside a function: macros without a semicolon, with one
# in an argument or after an attribute, macros in front of a loop or a declaration, `using typename`, parameter packs.
UNREAD = {
    "csrc/aten/autocast.cpp",
    "csrc/aten/generated_code.cpp",
    "csrc/aten/generated_code.h",
    "csrc/driver/device_language.h",
    "csrc/kernels/library/host_library.h",
    "csrc/kernels/loops/convert.cpp",
    "csrc/kernels/loops/elementwise.h",
    "csrc/kernels/loops/reduction.h",
    "csrc/kernels/loops/reductions.cpp",
    "csrc/kernels/nn/lstm_cell.h",
    "csrc/kernels/optim/fused_step.h",
    "csrc/kernels/random/elementary.h",
    "csrc/kernels/random/random_values.h",
    "csrc/profiler/recorder.h",
}


def sources() -> list[Path]:
    folders = ("csrc", "conformance", "examples")
    return [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".cpp", ".h"}]


def test_all_sources_are_read() -> None:
    found = sources()
    assert len(found) > 200
    trees = {path.relative_to(ROOT).as_posix(): parse(path.read_text(encoding="utf-8")) for path in found}
    assert {path for path, tree in trees.items() if QueryCursor(ERRORS).captures(tree.root_node)} == UNREAD


def test_what_is_hidden_keeps_its_place() -> None:
    text = "OPENREG_EXPORT void start();\ntypedef OR_ENUM State { kOn } State;\n"
    assert not parse("struct S {\n  C10_NOINLINE void f() {}\n};\n").root_node.has_error
    root = parse(text).root_node
    assert not root.has_error
    assert [text[node.start_byte : node.end_byte] for node in root.children] == text.splitlines()
