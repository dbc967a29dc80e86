"""`make sanitize ARGS=...`: which arguments are paths, which belong to options, and what counts as a fault."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import sanitized
from environment import Fault

NAMED, OTHER = "tests/aten/test_a.py", "tests/kernels"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders of tests, each of which appends the names of those that run to the file `ran`."""
    for name in ("aten", "kernels"):
        file = tmp_path / "tests" / name / f"test_{name[0]}.py"
        file.parent.mkdir(parents=True)
        file.write_text(f"def test_{name}():\n    with open('ran', 'a') as ran:\n        ran.write('{name} ')\n")
    monkeypatch.setattr(sanitized, "TESTS", ("tests/aten", "tests/kernels"))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "options", "paths"),
    [
        (["-k", "stream"], ["-k", "stream"], []),
        (["-k", "stream", OTHER], ["-k", "stream"], [OTHER]),
        (["-k", "tests", "-x", OTHER, "-v"], ["-k", "tests", "-x", "-v"], [OTHER]),
        (["--deselect", NAMED], ["--deselect", NAMED], []),
        (
            [f"--deselect={NAMED}", f"{NAMED}::test_aten", OTHER],
            [f"--deselect={NAMED}"],
            [f"{NAMED}::test_aten", OTHER],
        ),
        (["--maxfail", "1", "-n", "0"], ["--maxfail", "1", "-n", "0"], []),
    ],
)
def test_values_stay_with_their_options(tree: Path, arguments: list[str], options: list[str], paths: list[str]) -> None:
    assert sanitized.split(arguments, tree) == (options, paths)


def test_a_compiler_may_have_a_launcher_and_must_have_the_sanitizers(tmp_path: Path) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\ncase $1 in *asan*) echo /lib/libasan.so ;; *) echo ${1#*=} ;; esac\n")
    compiler.chmod(0o755)
    fault = f"make sanitize: env {compiler} has no libstdc++.so.6; install the sanitizers of your compiler"
    with pytest.raises(Fault, match=f"^{re.escape(fault)}$"):
        sanitized.preloaded(["env", str(compiler)])
    compiler.write_text("#!/bin/sh\necho /lib/${1#*=}\n")
    assert sanitized.preloaded(["env", str(compiler)]) == "/lib/libasan.so /lib/libstdc++.so.6"


def ran(tree: Path, *arguments: str) -> list[str]:
    """The tests that run, in order."""
    sanitized.run_tests(Path(sys.executable), tree, os.environ, ["-p", "no:xdist", *arguments])
    return (tree / "ran").read_text().split()


def test_without_paths_all_folders_run_though_one_has_no_such_test(tree: Path) -> None:
    assert ran(tree, "-k", "test_kernels") == ["kernels"]
    assert ran(tree, "-k", "test", NAMED) == ["kernels", "aten"]


def test_options_that_select_nothing_anywhere_are_a_fault(tree: Path) -> None:
    wanted = "make sanitize: found no test in tests/aten, tests/kernels that -p no:xdist -k 'not test' selects; name "
    with pytest.raises(Fault, match=re.escape(wanted)):
        ran(tree, "-k", "not test")


def test_a_failure_names_the_path(tree: Path) -> None:
    (tree / "tests/kernels/test_k.py").write_text("def test_wrong():\n    assert 0\n")
    with pytest.raises(Fault, match=r"make sanitize: a sanitizer or a test of tests/kernels reported a fault"):
        ran(tree, "-k", "test")
