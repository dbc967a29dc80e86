from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from docs._ext import binding
from docs._ext.records import Listing
from tests.docs.measurement import EXAMPLE, plan

if TYPE_CHECKING:
    from tests.docs.conftest import Repository


@pytest.mark.parametrize("path", ["csrc/hooks.cpp", "csrc/new.h", "examples/run.py", "CMakeLists.txt", "cmake/x.cmake"])
def test_code_digest_changes_with_a_source(repository: Repository, path: str) -> None:
    before = binding.code_digest(repository.root)
    repository.write(path, "// another text\n")
    assert binding.code_digest(repository.root) != before


def test_code_digest_changes_with_the_name_of_a_source(repository: Repository) -> None:
    before = binding.code_digest(repository.root)
    (repository.root / "csrc/hooks.cpp").rename(repository.root / "csrc/hook.cpp")
    assert binding.code_digest(repository.root) != before


@pytest.mark.parametrize(
    "path",
    [
        "torch_openreg/_C.so",
        "torch_openreg/lib/libopenreg.so",
        "torch_openreg/_build_info.py",
        "torch_openreg/__pycache__/device.cpython-311.pyc",
        "csrc/.hooks.cpp.swp",
        "csrc/hooks.cpp~",
        "tests/test_hooks.py",
        "docs/source/index.md",
    ],
)
def test_code_digest_leaves_out_what_no_measurement_depends_on(repository: Repository, path: str) -> None:
    before = binding.code_digest(repository.root)
    repository.write(path, "another text\n")
    assert binding.code_digest(repository.root) == before


def test_page_digest_leaves_out_prose_and_line_numbers(repository: Repository) -> None:
    repository.add(EXAMPLE)
    before = plan(repository)["index"]["digest"]
    page = repository.root / "docs/source/index.md"
    repository.page(page.read_text(encoding="utf-8").replace("# Guide", "# Guide\n\nA new sentence.\n\n"))
    source = repository.root / "csrc/hooks.cpp"
    repository.write("csrc/hooks.cpp", "// A line above the region.\n" + source.read_text(encoding="utf-8"))
    assert plan(repository)["index"]["digest"] == before


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("docs/source/index.md", "1 + 1", "2 + 0"),
        ("docs/source/index.md", "\n2\n", "\n3\n"),
        ("csrc/hooks.cpp", "start();", "stop();"),
    ],
)
def test_page_digest_changes_with_examples_and_listings(repository: Repository, path: str, old: str, new: str) -> None:
    repository.add(EXAMPLE)
    before = plan(repository)["index"]["digest"]
    text = (repository.root / path).read_text(encoding="utf-8")
    repository.write(path, text.replace(old, new))
    assert plan(repository)["index"]["digest"] != before


def test_region_digest_changes_with_text_pages_and_torch(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = Listing("csrc/hooks.cpp", 5, 8, "hooks-init")
    digests = {binding.region_digest(listing, pages, repository.root) for pages in (["a"], ["a", "b"], ["c"])}
    assert binding.region_digest(listing, ["b", "a"], repository.root) in digests
    monkeypatch.setattr(binding, "torch_version", lambda: "9.9.9")
    digests.add(binding.region_digest(listing, ["a"], repository.root))
    repository.write("csrc/hooks.cpp", "\n" * 9)
    digests.add(binding.region_digest(listing, ["a"], repository.root))
    assert len(digests) == 5
