from __future__ import annotations

from typing import TYPE_CHECKING

from weaver.pages.narrated import Narrated, narrated, share
from weaver.sources.listing import Listing

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

OWNED = "```{whole-sources}\ncsrc/hooks.cpp\n```\n"


def test_a_file_that_no_page_owns_is_a_fault_at_the_file(repository: Repository) -> None:
    repository.write("csrc/other.h", "int other();\n")
    repository.add(OWNED)
    repository.configure(package=["csrc"], every_file_has_a_chapter=True)
    result = repository.build()
    result.assert_fault("csrc/other.h:1", "no page has `csrc/other.h` among its whole-sources")
    assert not result.has("csrc/hooks.cpp:1")
    repository.add("```{whole-sources}\ncsrc/other.h\n```\n")
    repository.configure(package=["csrc"], every_file_has_a_chapter=True)
    assert repository.build().status == 0


def test_a_new_file_is_found_though_no_page_has_changed(repository: Repository) -> None:
    repository.add(OWNED)
    repository.configure(package=["csrc"], every_file_has_a_chapter=True)
    assert repository.build().status == 0
    repository.write("csrc/other.h", "int other();\n")
    repository.configure(package=["csrc"], every_file_has_a_chapter=True)
    repository.build().assert_fault("csrc/other.h:1", "no page has")


def test_of_two_pages_the_first_in_the_contents_owns_a_file(repository: Repository) -> None:
    repository.page("# Guide\n\n```{toctree}\nzebra\nant\n```\n")
    repository.page("# Zebra\n\n```{literalinclude} /CMakeLists.txt\n```\n\n" + OWNED, "zebra.md")
    repository.page("# Ant\n\n" + OWNED + "\n```{proven} narrated\n```\n", "ant.md")
    repository.write("csrc/hooks.cpp", "int hooks();\n")
    repository.configure(package=["csrc"], every_file_has_a_chapter=True)
    result = repository.build()
    assert result.status == 0, result.warnings
    html = (result.output / "ant.html").read_text(encoding="utf-8")
    assert '<td><p><a class="reference internal" href="zebra.html">Zebra</a></p></td>' in html


def test_blank_lines_and_markers_do_not_count(repository: Repository) -> None:
    repository.write("csrc/notes.txt", "no source\n")
    repository.write("csrc/python/__init__.py", '"""A package."""\n\nA = 1\n')
    shown = [Listing("csrc/hooks.cpp", 5, 8, "hooks-init"), Listing("csrc/hooks.cpp", 8, 8)]
    assert narrated(repository.root, shown, ["csrc"]) == [
        Narrated("csrc/hooks.cpp", 6, 4),
        Narrated("csrc/python/__init__.py", 2, 0),
    ]


def test_share_is_of_all_lines() -> None:
    assert share([Narrated("a", 10, 1), Narrated("b", 30, 9)]) == 0.25
    assert share([]) == 1
