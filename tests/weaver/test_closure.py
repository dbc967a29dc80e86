"""The closure of a set of sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from weaver.configuration import load
from weaver.sources.closure import Sources

ROOT = Path(__file__).resolve().parents[2]
Tree = Callable[[dict[str, str]], Sources]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    def made(files: dict[str, str]) -> Sources:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Sources(replace(load(ROOT), root=tmp_path))

    return made


def test_headers_and_what_defines_them(tree: Tree) -> None:
    sources = tree(
        {
            "csrc/aten/user.cpp": '#include "runtime/pool.h"\n#include <vector>\n',
            "csrc/runtime/pool.h": '#include "export.h"\nclass Pool {\n  void a();\n};\nint size_of(Pool&);\n',
            "csrc/runtime/export.h": "",
            "csrc/runtime/pool.cpp": '#include "pool.h"\nvoid Pool::a() {}\n',
            "csrc/runtime/other.cpp": '#include "runtime/pool.h"\nint size_of(const Pool& pool) {\n  return 1;\n}\n',
            "csrc/runtime/another_user.cpp": '#include "runtime/pool.h"\nvoid use() {\n  size_of(pool);\n}\n',
            "csrc/runtime/namesake.cpp": "int size_of(const Box& box) {\n  return 2;\n}\n",
        }
    )
    assert sources.closure(["csrc/aten/user.cpp"]) == {
        "csrc/aten/user.cpp", "csrc/runtime/pool.h", "csrc/runtime/export.h", "csrc/runtime/pool.cpp",
        "csrc/runtime/other.cpp",
    }  # fmt: skip


def test_a_header_of_the_folder_above(tree: Tree) -> None:
    sources = tree(
        {
            "csrc/driver/driver.h": "int start(int a);\n",
            "csrc/driver/start.cpp": '#include "driver.h"\nint start(int a) {\n  return a;\n}\n',
            "csrc/driver/real/start.cpp": '#include "../driver.h"\nint start(int a) {\n  return a;\n}\n',
        }
    )
    assert sources.closure(["csrc/driver/driver.h"]) == {"csrc/driver/driver.h", "csrc/driver/start.cpp"}
    assert sources.closure(["csrc/driver/real/start.cpp"]) == set(sources.texts)


def test_an_optional_function_needs_no_definition(tree: Tree) -> None:
    sources = tree(
        {
            "csrc/runtime/user.cpp": '#include "driver/driver.h"\n',
            "csrc/driver/driver.h": "OR_OPTIONAL int one(int a);\nint two(int a);\n",
            "csrc/driver/one.cpp": '#include "driver/driver.h"\nint one(int a) {\n  return a;\n}\n',
            "csrc/driver/two.cpp": '#include "driver/driver.h"\nint two(int a) {\n  return a;\n}\n',
        }
    )
    assert sources.closure(["csrc/runtime/user.cpp"]) == {
        "csrc/runtime/user.cpp", "csrc/driver/driver.h", "csrc/driver/two.cpp",
    }  # fmt: skip


def test_schemas_variants_and_tables(tree: Tree) -> None:
    sources = tree(
        {
            "csrc/aten/twice.cpp": "TORCH_LIBRARY_IMPL(openreg, PrivateUse1, m) {\n}\n",
            "csrc/kernels/twice.cpp": "",
            "csrc/kernels/loops/twice.cpp": "",
            "csrc/aten/staged/twice.cpp": "",
            "csrc/aten/schemas.cpp": "TORCH_LIBRARY_FRAGMENT(openreg, m) {\n}\n",
            "csrc/aten/other.cpp": "TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {\n}\n",
            "csrc/aten/generate_all.py": "TEXT = '#include \"aten/all.h\"'\n",
            "csrc/aten/all.toml": "",
            "csrc/aten/all.h": "",
        }
    )
    assert sources.closure(["csrc/aten/twice.cpp"]) == {
        f"csrc/{name}.cpp" for name in ("aten/twice", "kernels/twice", "aten/staged/twice", "aten/schemas")
    }
    assert sources.closure(["csrc/aten/other.cpp"]) == {"csrc/aten/other.cpp"}
    assert sources.closure(["csrc/aten/generate_all.py"]) == {
        "csrc/aten/generate_all.py", "csrc/aten/all.toml", "csrc/aten/all.h",
    }  # fmt: skip


def test_imports(tree: Tree) -> None:
    sources = tree(
        {
            "torch_openreg/__init__.py": "from torch_openreg import _C, deep\n",
            "torch_openreg/_C.pyi": "",
            "torch_openreg/deep/__init__.py": "from . import one\nfrom .two import x\nimport torch\n",
            "torch_openreg/deep/one.py": "from ..three import y\n",
            "torch_openreg/deep/two.py": "",
            "torch_openreg/three.py": "",
            "torch_openreg/alone.py": "",
        }
    )
    assert sources.closure(["torch_openreg/__init__.py"]) == set(sources.texts) - {"torch_openreg/alone.py"}


def test_every_source_of_the_backend_has_a_chapter() -> None:
    sources = Sources(load(ROOT))
    owned = {path for paths in sources.chapters.values() for path in paths}
    built = {
        path
        for path in sources.texts
        if Path(path).suffix in (".in", ".map", ".md", ".typed")
        or path.endswith(("minimal/CMakeLists.txt", "opencl/CMakeLists.txt"))
    }
    assert set(sources.texts) - owned == built
    assert len(sources.chapters) > 25


def test_a_chapter_of_operators_needs_the_runtime_and_no_other_operators() -> None:
    needed = Sources(load(ROOT)).closure(["csrc/kernels/nn/convolution.cpp"])
    assert {"csrc/runtime/error.cpp", "csrc/runtime/stream.cpp", "csrc/aten/staged/convolution.cpp"} <= needed
    assert {
        "csrc/kernels/attention/attention.cpp",
        "csrc/aten/recurrent.cpp",
        "csrc/kernels/library/structured.toml",
    } & needed == set()
