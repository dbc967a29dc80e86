from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from weaver.pages import source_pages

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository


def listing(name: str, path: str = "/csrc/hooks.cpp", end: str | None = None, *options: str) -> str:
    return "\n".join(
        [
            f"```{{literalinclude}} {path}",
            f':start-after: "LITERALINCLUDE START: {name}"',
            f':end-before: "LITERALINCLUDE END: {end or name}"',
            *options,
            "```",
            "",
        ]
    )


def plain(html: str) -> str:
    return re.sub(r"<[^>]+>", "", html)


def test_listing_shows_the_region_its_numbers_and_where_it_stands(repository: Repository) -> None:
    result = repository.build()
    assert result.status == 0, result.warnings
    html = (result.output / "index.html").read_text()
    text = plain(html)
    assert "5/// Starts the device.\n6void Hooks::init() const {\n7  start();\n8}" in text.replace("&gt;", ">")
    assert "LITERALINCLUDE" not in text
    assert '<a class="provenance reference internal" href="sources/csrc/hooks.cpp.html#L5">csrc/hooks.cpp:5-8' in html
    source = (result.output / "sources/csrc/hooks.cpp.html").read_text()
    assert 'id="L5"' in source


def test_paths_are_relative_to_the_page_or_start_at_the_root(repository: Repository) -> None:
    repository.add(listing("hooks-init", "../../csrc/hooks.cpp"))
    result = repository.build()
    assert result.status == 0, result.warnings
    assert (result.output / "index.html").read_text().count("csrc/hooks.cpp:5-8") == 2


def test_emphasis_is_by_text(repository: Repository) -> None:
    repository.add(listing("hooks-init", "/csrc/hooks.cpp", None, ":emphasize-text: init() const ;; start();"))
    result = repository.build()
    assert result.status == 0, result.warnings
    assert (result.output / "index.html").read_text().count('class="hll"') == 2


def test_indented_regions_are_dedented(repository: Repository) -> None:
    region = "class A {\n  // LITERALINCLUDE START: class-member\n  int a;\n    int b;\n"
    repository.write("csrc/a.h", region + "  // LITERALINCLUDE END: class-member\n};\n")
    repository.add(listing("class-member", "/csrc/a.h"))
    result = repository.build()
    assert result.status == 0, result.warnings
    assert "3int a;\n4  int b;" in plain((result.output / "index.html").read_text())


def test_pyobject_shows_one_definition_with_its_decorators(repository: Repository) -> None:
    source = "import os\n\n\nclass A:\n    @property\n    def b(self) -> int:\n        return 1\n\n    c = 2\n"
    repository.write("torch_openreg/a.py", source)
    repository.add("```{literalinclude} /torch_openreg/a.py\n:pyobject: A.b\n```\n")
    result = repository.build()
    assert result.status == 0, result.warnings
    html = (result.output / "index.html").read_text()
    assert "torch_openreg/a.py:5-7" in html
    assert "5@property" in plain(html)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (listing("hooks-unit"), "no region `hooks-unit`; csrc/hooks.cpp has: hooks-init"),
        (listing("hooks-ini"), "no region `hooks-ini`"),
        (listing("hooks-init", "/csrc/hooks.cpp", "hooks-other"), "name two regions, `hooks-init` and `hooks-other`"),
        (listing("hooks-init", "/csrc/none.cpp"), "no file csrc/none.cpp in the repository"),
        (listing("hooks-init", "/docs/source/conf.py"), "docs/source/conf.py is not compiled, imported or executed"),
        (listing("hooks-init", "/../outside.cpp"), "lies outside the repository"),
        (listing("hooks-init", "/CMakeLists.txt"), "region `hooks-init` is in csrc/hooks.cpp, not in CMakeLists.txt"),
        (listing("hooks-init", "/csrc/hooks.cpp", None, ":emphasize-text: stop"), "`stop` is in no line"),
        ("```{literalinclude} /csrc/hooks.cpp\n```\n", "the marker in line 4 would be shown"),
        ("```{literalinclude} /csrc/hooks.cpp\n:start-at: void\n```\n", "given: :start-at:"),
        ('```{literalinclude} /csrc/hooks.cpp\n:start-after: "LITERALINCLUDE START: hooks-init"\n```\n', "the two"),
        (
            '```{literalinclude} /csrc/hooks.cpp\n:start-after: "START: hooks-init"\n:end-before: "}"\n```\n',
            "must be a whole marker",
        ),
        (
            listing("hooks-init", "/csrc/hooks.cpp", None, ":language: python"),
            ":language: is refused: the name of the file says it",
        ),
        ("```{literalinclude} /torch_openreg/__init__.py\n```\n", "the selection has no text"),
        ("```{literalinclude} torch:ATen/NoSuchHeader.h\n:start-at: x\n```\n", "has no file ATen/NoSuchHeader.h"),
        ("```{literalinclude} torch:ATen/Context.h\n```\n", "select a part of an installed file"),
        *[
            (f"```{{literalinclude}} /csrc/hooks.cpp\n:{option}: 1\n```\n", f":{option}: is refused")
            for option in ("lines", "emphasize-lines", "diff", "append", "prepend", "lineno-start")
        ],
    ],
)
def test_fault_names_page_and_line(repository: Repository, block: str, message: str) -> None:
    repository.write("torch_openreg/__init__.py", "")
    line = repository.add(block)
    repository.build().assert_fault(f"index.md:{line}", message)


def test_fault_in_a_tab_has_the_right_line(repository: Repository) -> None:
    line = repository.add(f"````{{tab-set}}\n```{{tab-item}} C++\n\n:::{listing('hooks-unit')[3:-4]}:::\n```\n````\n")
    repository.build().assert_fault(f"index.md:{line + 3}", "no region `hooks-unit`")


def test_unknown_option_fails(repository: Repository) -> None:
    repository.add(listing("hooks-init", "/csrc/hooks.cpp", None, ":emphasise-text: start"))
    result = repository.build()
    assert result.status != 0
    assert "emphasise-text" in result.warnings


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("// LITERALINCLUDE START: hooks-init\nint a;\n// LITERALINCLUDE END: hooks-init\n", 1, "is also marked at"),
        ("// LITERALINCLUDE START: hooks-init-all\nint a;\n// LITERALINCLUDE END: hooks-init-all\n", 1, "begins with"),
        ("// LITERALINCLUDE START: event-wait\nint a;\n", 1, "has no END"),
        ("int a;\n// LITERALINCLUDE STRAT: event-wait\n", 2, "malformed marker"),
    ],
)
def test_marker_faults_fail_although_no_page_shows_them(
    repository: Repository, source: str, line: int, message: str
) -> None:
    repository.write("csrc/zebra.h", source)
    repository.build().assert_fault(f"csrc/zebra.h:{line}", message)


def test_region_marked_twice_in_a_file_is_not_shown(repository: Repository) -> None:
    twice = (repository.root / "csrc/hooks.cpp").read_text() * 2
    repository.write("csrc/hooks.cpp", twice)
    repository.build().assert_fault("index.md:3", "region `hooks-init` is marked 2 times, in lines 4, 13")


def test_source_that_nothing_compiles_is_refused(repository: Repository) -> None:
    repository.write("CMakeLists.txt", "add_library(backend csrc/more_hooks.cpp)\n")
    repository.build().assert_fault("index.md:3", "csrc/hooks.cpp is named by no CMakeLists.txt")
    repository.write(
        "CMakeLists.txt", "foreach(folder IN ITEMS csrc/aten)\n  file(GLOB sources ${folder}/*.cpp)\nendforeach()\n"
    )
    repository.build().assert_fault("index.md:3", "csrc/hooks.cpp is named by no CMakeLists.txt")
    repository.write(
        "CMakeLists.txt", "foreach(folder IN ITEMS csrc)\n  file(GLOB sources ${folder}/*.cpp)\nendforeach()\n"
    )
    repository.build()


def test_edited_source_rebuilds_the_page(repository: Repository) -> None:
    repository.build()
    edited = (repository.root / "csrc/hooks.cpp").read_text().replace("start();", "start_it();\n  check();")
    repository.write("csrc/hooks.cpp", edited)
    result = repository.build()
    assert result.status == 0, result.warnings
    html = (result.output / "index.html").read_text()
    assert "csrc/hooks.cpp:5-9" in html
    assert "check" in (result.output / "sources/csrc/hooks.cpp.html").read_text()


def test_source_pages_follow_their_files_and_the_contents(repository: Repository) -> None:
    repository.write("csrc/extra.h", "int a;\n")
    output = repository.build().output
    pages = {name: output / f"sources/csrc/{name}.html" for name in ("hooks.cpp", "extra.h")}
    first = {name: page.stat().st_mtime_ns for name, page in pages.items()}
    repository.build()
    assert first == {name: page.stat().st_mtime_ns for name, page in pages.items()}
    (repository.root / "csrc/extra.h").unlink()
    repository.add("```{toctree}\nother\n```\n")
    repository.page("# Other\n", "other.md")
    result = repository.build()
    assert result.status == 0, result.warnings
    assert not pages["extra.h"].exists()
    assert pages["hooks.cpp"].stat().st_mtime_ns > first["hooks.cpp"]


def test_source_pages_follow_the_release(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    page = repository.build().output / "sources/csrc/hooks.cpp.html"
    first = page.stat().st_mtime_ns
    monkeypatch.setattr(source_pages, "bound_to", lambda configuration: ("torch", "9.9.9"))
    repository.build()
    assert page.stat().st_mtime_ns > first


def test_parallel_build_is_the_same(repository: Repository) -> None:
    repository.add("```{toctree}\n:glob:\npage*\n```\n")
    for number in range(6):
        repository.page(f"# Page\n\n{listing('hooks-init')}", f"page{number}.md")
    repository.page("# Page\n\n```python\nprint(1)\n```\n", "page6.md")
    result = repository.build(fresh=True, parallel=2)
    result.assert_fault("page6.md:4", "unproven code block")
    assert result.warnings.count("WARNING") == 1
    repository.build().assert_fault("page6.md:4", "unproven code block")
