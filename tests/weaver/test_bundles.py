"""The download of a page's sources and everything that they need."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

from weaver.sources.installed import release

if TYPE_CHECKING:
    from pathlib import Path

    from tests.weaver.conftest import Repository

FOLDS = "# Streams\n\n```{whole-sources}\ncsrc/stream.cpp\nexamples/use.py\n```\n"


def two_pages(repository: Repository) -> Repository:
    """``accelerator/stream`` has a source that needs others, and an example; the index has no sources."""
    repository.page("# Guide\n\n```{literalinclude} /csrc/stream.h\n```\n\n```{toctree}\naccelerator/stream\n```\n")
    repository.page(FOLDS, "accelerator/stream.md")
    (repository.root / "csrc/hooks.cpp").unlink()
    repository.write("CMakeLists.txt", "add_library(backend csrc/stream.cpp csrc/error.cpp)\n")
    repository.write(
        "csrc/stream.cpp",
        '#include "stream.h"\n\n// LITERALINCLUDE START: stream-make\nint make();  // NOT PROVEN: nobody does\n'
        "// LITERALINCLUDE END: stream-make\n",
    )
    repository.write("csrc/stream.h", '#include "error.h"\n')
    repository.write("csrc/error.h", "int check(int code);\n")
    repository.write("csrc/error.cpp", '#include "error.h"\nint check(int code) {\n  return code;\n}\n')
    repository.write("csrc/other.h", "int other();\n")
    repository.write("examples/use.py", "print(1)\n")
    return repository


def built(repository: Repository) -> Path:
    # Regions that no page shows do not matter here.
    repository.configure(executed=[])
    result = repository.build(suppress_warnings=["weaver.unshown"])
    assert result.status == 0, result.warnings
    return result.output


def members(archive: Path) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(archive.read_bytes())) as opened:
        assert {entry.date_time for entry in opened.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert opened.namelist() == sorted(opened.namelist())
        return {name: opened.read(name).decode() for name in opened.namelist()}


def test_an_archive_has_the_files_and_what_they_need(repository: Repository) -> None:
    output = built(two_pages(repository))
    found = members(output / "bundles/accelerator/stream.zip")
    assert found["stream/csrc/stream.cpp"] == '#include "stream.h"\n\nint make();\n'
    assert found.pop("stream/README.txt") == (
        'Sources of the page "Streams" of The executable guide to PyTorch accelerators.\n'
        f"License: BSD-3-Clause, see LICENSE. Release of torch: {release('torch')}.\n"
        """
Of the page itself:
  csrc/stream.cpp
  examples/use.py

What these need, each with what needs it:
  csrc/error.cpp: csrc/error.h
  csrc/error.h: csrc/error.cpp, csrc/stream.h
  csrc/stream.h: csrc/stream.cpp

A copy of it: copy stream
"""
    )
    assert set(found) == {
        f"stream/{path}"
        for path in (
            "LICENSE", "csrc/error.cpp", "csrc/error.h", "csrc/stream.cpp", "csrc/stream.h", "examples/use.py",
        )
    }  # fmt: skip


def test_the_page_offers_it_above_the_sources(repository: Repository) -> None:
    output = built(two_pages(repository))
    page = (output / "accelerator/stream.html").read_text(encoding="utf-8")
    size = (output / "bundles/accelerator/stream.zip").stat().st_size
    assert 'href="../bundles/accelerator/stream.zip">Download these 2 files with the 3 that they need</a>' in page
    assert f"(zip, {round(size / 1000)} kB)" in page
    assert page.index("Download these") < page.index('<ul class="whole-sources')
    assert "Download" not in (output / "index.html").read_text(encoding="utf-8")


def test_it_follows_a_source_that_no_page_names_and_is_written_only_then(repository: Repository) -> None:
    archive = built(two_pages(repository)) / "bundles/accelerator/stream.zip"
    written, content = archive.stat().st_mtime_ns, archive.read_bytes()
    repository.write("csrc/other.h", "int another();\n")
    built(repository)
    assert archive.stat().st_mtime_ns == written
    repository.write("csrc/error.h", '#include "other.h"\nint check(int code);\n')
    page = (built(repository) / "accelerator/stream.html").read_text(encoding="utf-8")
    assert archive.read_bytes() != content
    assert "with the 4 that they need" in page


def test_an_archive_goes_with_its_page(repository: Repository) -> None:
    archive = built(two_pages(repository)) / "bundles/accelerator/stream.zip"
    repository.page("# Streams\n\n```{literalinclude} /csrc/stream.h\n```\n", "accelerator/stream.md")
    built(repository)
    assert not archive.exists()


def test_other_builders_make_none(repository: Repository) -> None:
    two_pages(repository)
    repository.build("plan")
    assert list((repository.root / "docs/build").rglob("*.zip")) == []


def test_one_file_that_needs_nothing(repository: Repository) -> None:
    repository.page("# Guide\n\n```{whole-sources}\ncsrc/other.h\n```\n")
    repository.write("csrc/hooks.cpp", "int hooks();\n")
    repository.write("csrc/other.h", "int other();\n")
    page = (built(repository) / "index.html").read_text(encoding="utf-8")
    assert ">Download this file</a>" in page
    # The note is only for chapters, and the index is not one.
    readme = members(repository.root / "docs/build/html/bundles/index.zip")["index/README.txt"]
    assert "A copy of it" not in readme
