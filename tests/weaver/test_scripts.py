"""Which files an example runs: those that it names or imports, and those that these name or import in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from weaver.sources.binding import step_digest
from weaver.sources.scripts import Scripts

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

FILES = {
    "examples/first.py": '"""Not examples/alone.py."""\nfrom helper import (\n    check,\n)  # nor examples/alone.py\n',
    "examples/helper.py": 'import subprocess\nprogram = "tool.cpp"\n',
    "examples/tool.cpp": '#include "tool.h"\n// "alone.py"\n',
    "examples/tool.h": "int tool;\n",
    "examples/alone.py": "import torch\n",
    "examples/beside.py": 'source = Path(__file__).with_suffix(".cpp")\n',
    "examples/beside.cpp": "int beside;\n",
    "examples/package/README.md": "beside.cpp\n",
    "examples/package/start.py": 'importlib.import_module("parts.one")\n',
    "examples/package/parts/__init__.py": "",
    "examples/package/parts/one.py": "from . import two\n",
    "examples/package/parts/two.py": "",
    "examples/package/build/made.cpp": "",
}
PARTS = ["examples/package/parts/__init__.py", "examples/package/parts/one.py", "examples/package/parts/two.py"]


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ("1 + 1", []),
        ('sys.path.append("examples")', []),
        ('run_example("examples/gone.py")', []),
        ("helper.check()", []),
        ('run_example("examples/alone.py")', ["examples/alone.py"]),
        (
            'run_example("examples/first.py", "a")',
            ["examples/first.py", "examples/helper.py", "examples/tool.cpp", "examples/tool.h"],
        ),
        ("import os, helper as h", ["examples/helper.py", "examples/tool.cpp", "examples/tool.h"]),
        ("from examples import alone", ["examples/alone.py"]),
        ("python examples/beside.py | sort", ["examples/beside.cpp", "examples/beside.py"]),
        ("python examples/package/start.py", [*PARTS, "examples/package/start.py"]),
        ("PYTHONPATH=csrc:examples/package python -m parts.one", [*PARTS, "examples/package/start.py"]),
    ],
)
def test_an_example_runs_what_it_names(repository: Repository, source: str, files: list[str]) -> None:
    for path, text in FILES.items():
        repository.write(path, text)
    assert list(Scripts(repository.configuration).run_by(source)) == files


def test_the_digest_of_an_example_covers_the_code_of_what_it_runs(repository: Repository) -> None:
    def digest(helper: str, source: str = 'run_example("examples/first.py")') -> str:
        repository.write("examples/helper.py", helper)
        return step_digest(source, "2\n", Scripts(repository.configuration))

    repository.write("examples/first.py", "import helper\n")
    before = digest("assert one() == 1\n")
    assert digest("assert one() == 1  # a comment\n") == before
    assert digest("one()\n") != before
    assert digest("a", "1 + 1") == digest("b", "1 + 1")


def test_a_script_that_is_no_python_yet_has_a_digest(repository: Repository) -> None:
    repository.write("examples/first.py", 'import helper\nopen("\n(')
    repository.write("examples/helper.py", "")
    scripts = Scripts(repository.configuration)
    assert list(scripts.run_by('run_example("examples/first.py")')) == ["examples/first.py", "examples/helper.py"]
