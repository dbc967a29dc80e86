from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from weaver.configuration import Configuration
from weaver.sources import binding
from weaver.sources.listing import Listing

from tests.weaver.measurement import EXAMPLE, plan

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("name", "before", "same", "other"),
    [
        ("a.cpp", "int a = 1;  // one\n", "/* first */ int  a =\n  1;\n", "int a = 2;  // one\n"),
        ("a.h", 'auto a = "//x";\n', 'auto a = "//x";  // y\n', 'auto a = "//y";\n'),
        ("a.py", "a = 1  # one\n", "# first\n\na = 1\n", "a = 2  # one\n"),
        ("a.py", "if a:\n    b\n    c\n", "if a:\n\n    b\n    c\n", "if a:\n    b\nc\n"),
        (
            "a.py",
            'def f():\n    """One."""\n    a\n',
            'def f():\n    """Two.\n\n    More.\n    """\n    a\n',
            "def f():\n    b\n",
        ),
        ("a.py", 'a = "one"\n', 'a =  "one"\n', 'a = "two"\n'),
        ("a.toml", 'a = "#1"  # one\n', '# first\n\na = "#1"\n', 'a = "#2"  # one\n'),
        ("a.toml", "[a]\nb = 1\n[c]\n", "a.b = 1\n\n[c]\n", "[a]\n[c]\nb = 1\n"),
        ("CMakeLists.txt", 'f(a "#b" c)  # one\n', '#[[first\nf()]]\nf(a  "#b"\n  c)\n', 'f(a "#d" c)  # one\n'),
        ("a.cmake", "f(a)  # one\n", "#[==[ ]] ]==]f(a)\n", "f(a\n# )\nb)\n"),
        ("a.txt", "a # one\n", "a # one\n", "a # two\n"),
    ],
)
def test_code_digest_leaves_out_comments_docstrings_and_layout(
    tmp_path: Path, name: str, before: str, same: str, other: str
) -> None:
    digests = [binding.code_digest(write(tmp_path, name, text)) for text in (before, same, other)]
    assert digests[0] == digests[1] != digests[2]


def test_a_file_that_is_gone_has_no_code_digest(tmp_path: Path) -> None:
    assert binding.code_digest(tmp_path / "gone.cpp") == ""


def test_included_follows_headers_of_the_repository(tmp_path: Path) -> None:
    write(tmp_path, "csrc/kernels/loops/add.cpp", '#include <ATen/ops/add.h>\n#include "kernels/launch.h"\n')
    write(tmp_path, "csrc/kernels/launch.h", '#include "openreg.h"\n#include "torch/library.h"\n')
    write(tmp_path, "csrc/driver/openreg.h", "")
    write(tmp_path, "csrc/driver/other.h", "")
    expected = {"csrc/kernels/loops/add.cpp", "csrc/kernels/launch.h", "csrc/driver/openreg.h", "examples/a.py"}
    settings = Configuration(tmp_path, include_folders=("csrc", "csrc/driver"))
    assert binding.included(settings, ["csrc/kernels/loops/add.cpp", "examples/a.py"], tmp_path) == expected


def test_run_digest_leaves_out_prose_and_what_is_shown(repository: Repository) -> None:
    repository.add(EXAMPLE)
    before = plan(repository)["index"]["digest"]
    page = repository.root / "docs/source/index.md"
    repository.page(page.read_text(encoding="utf-8").replace("# Guide", "# Guide\n\nA new sentence.\n\n"))
    source = repository.root / "csrc/hooks.cpp"
    repository.write("csrc/hooks.cpp", source.read_text(encoding="utf-8").replace("start();", "stop();"))
    assert plan(repository)["index"]["digest"] == before


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("docs/source/index.md", "1 + 1", "2 + 0"),
        ("docs/source/index.md", "\n2\n", "\n3\n"),
        ("examples/helper.py", "assert one", "print"),
    ],
)
def test_run_digest_changes_with_examples(repository: Repository, path: str, old: str, new: str) -> None:
    repository.write("examples/first.py", "import helper\n")
    repository.write("examples/helper.py", "assert one\n")
    repository.add(EXAMPLE + "\n```{console-run}\n$ python examples/first.py\n```\n")
    before = plan(repository)["index"]["digest"]
    text = (repository.root / path).read_text(encoding="utf-8")
    repository.write(path, text.replace(old, new))
    assert plan(repository)["index"]["digest"] != before


def test_region_digest_changes_with_text_pages_and_torch(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = Listing("csrc/hooks.cpp", 5, 8, "hooks-init")
    digests = {binding.region_digest(listing, repository.configuration, pages) for pages in (["a"], ["a", "b"], ["c"])}
    assert binding.region_digest(listing, repository.configuration, ["b", "a"]) in digests
    monkeypatch.setattr(binding, "bound_to", lambda configuration: ("torch", "9.9.9"))
    digests.add(binding.region_digest(listing, repository.configuration, ["a"]))
    repository.write("csrc/hooks.cpp", "\n" * 9)
    digests.add(binding.region_digest(listing, repository.configuration, ["a"]))
    assert len(digests) == 5


@pytest.mark.parametrize(
    ("path", "before", "same", "other"),
    [
        (
            "csrc/a.cpp",
            '// One.\nint f() {\n  return g("// no comment");  // two\n}\n',
            '/* Another, longer one\n   on two lines. */\nint f() {\n  return g("// no comment");\n}\n',
            '// One.\nint f() {\n  return g("// another text");  // two\n}\n',
        ),
        (
            "torch_openreg/a.py",
            'def f():\n    """One."""\n    return "text"  # two\n',
            'def f():\n    """Another.\n\n    On lines of its own.\n    """\n    # A comment.\n    return "text"\n',
            'def f():\n    """One."""\n    return "another text"  # two\n',
        ),
        ("CMakeLists.txt", "# One.\nadd(a)\n", "# One.\nadd(a)\n", "# Two.\nadd(a)\n"),
    ],
)
def test_a_comment_changes_no_region(repository: Repository, path: str, before: str, same: str, other: str) -> None:
    def digest(text: str) -> str:
        repository.write(path, text)
        return binding.region_digest(Listing(path, 1, text.count("\n")), repository.configuration)

    assert digest(before) == digest(same)
    assert digest(before) != digest(other)
