from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sphinx.errors import ExtensionError

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

ROOT = Path(__file__).resolve().parents[2]


def doctest(code: str) -> str:
    return f"```{{doctest}}\n{code}\n```\n"


def test_proof_counts_what_ran(repository: Repository) -> None:
    repository.write("examples/hello.py", "import os, sys\nprint('hello', sys.argv[1:], os.environ.get('NAME'))\n")
    repository.add(
        doctest(">>> a = 1\n>>> a + 1\n2")
        + "```{testcode}\nfor i in range(2):\n    print(a + i)\n```\n```{testoutput}\n1\n2\n```\n"
        + "```{console-run}\n$ NAME=x python examples/hello.py 1\nhello ['1'] x\n$ python -c \"print(1)\"\n1\n```\n"
        + "```{console-run}\n:status: 3\n\n$ echo gone; exit 3\ngone\n```\n"
        + doctest('>>> run_example("examples/hello.py", "2", env={"NAME": "y"})\nhello [\'2\'] y')
        + "```{testsetup}\nfirst = True\n```\n```{testcleanup}\nassert first\n```\n"
        + doctest(
            ">>> int('x...')\nTraceback (most recent call last):\nValueError: invalid literal ... base 10: 'x...'"
        )
    )
    repository.page("# Other\n\n" + doctest(">>> 'a' in globals()\nFalse"), "other.md")
    repository.add("```{toctree}\nother\n```\n")
    result = repository.build("doctest", fresh=True)
    assert result.status == 0, result.warnings
    proof = json.loads((result.output / "proof.json").read_text())
    for page in proof["pages"].values():
        assert min(page.pop("seconds"), page.pop("processor_seconds")) > 0
    assert proof == {
        "pages": {
            "index": {"examples": 10, "ran": 10, "listings": 1},
            "other": {"examples": 1, "ran": 1, "listings": 0},
        }
    }


def test_pages_that_are_named_run_alone(repository: Repository) -> None:
    repository.add(doctest(">>> 1\n2") + "```{toctree}\nother\n```\n")
    repository.page("# Other\n\n" + doctest(">>> 1\n1"), "other.md")
    result = repository.build("doctest", weaver_pages=["other"])
    assert result.status == 0, result.warnings
    assert list(json.loads((result.output / "proof.json").read_text())["pages"]) == ["other"]
    repository.page("# Other\n\n" + doctest(">>> 1\n3"), "other.md")
    repository.build("doctest", weaver_pages=["other"]).assert_fault("other.md:4", "Expected:\n    3")
    with pytest.raises(ExtensionError, match="there is no page third"):
        repository.build("doctest", weaver_pages=["third"])


@pytest.mark.parametrize(
    ("block", "offset", "parts"),
    [
        (doctest(">>> 1 + 1\n3"), 1, ["1 + 1", "Expected:\n    3", "Got:\n    2"]),
        (doctest(">>> a = 1\n>>> a\n1\n\n>>> a\n2"), 5, ["Expected:\n    2"]),
        ("```{doctest}\n:options: +NORMALIZE_WHITESPACE\n\n>>> 1 + 1\n3\n```\n", 3, ["Expected:\n    3"]),
        (doctest(">>> if True:\n...     print(1)\n1\n>>> 2\n3"), 4, ["Expected:\n    3"]),
        ("```{testcode}\na = 1\nprint(a)\n```\n\n```{testoutput}\n2\n```\n", 1, ["Expected:\n    2"]),
        ("```{testcode}\nprint(1)\n```\n", 1, ["Expected nothing", "Got:\n    1"]),
        (
            doctest(">>> int('a')\nTraceback (most recent call last):\nValueError: wrong"),
            1,
            ["wrong", "invalid literal"],
        ),
        (doctest(">>> int('1')\nTraceback (most recent call last):\nValueError: wrong"), 1, ["Got:\n    1"]),
        (doctest(">>> int('a')"), 1, ["raised", "ValueError: invalid literal"]),
        (
            doctest(">>> print(1); int('a')\nTraceback (most recent call last):\nValueError: ..."),
            1,
            ["printed before it raised"],
        ),
        (doctest(">>> import sys\n>>> sys.exit(0)"), 2, ["raised", "SystemExit: 0"]),
        (doctest(">>> import os\n>>> os._exit(0)\n>>> 1\n2"), 2, ["ended with status 0 before the page had run"]),
        (
            doctest(">>> import ctypes\n>>> ctypes.string_at(0)\n>>> 1\n1"),
            2,
            ["was killed by SIGSEGV in this example", "Fatal Python error"],
        ),
        (doctest(">>> import os\n>>> os.abort()"), 2, ["was killed by SIGABRT in this example"]),
        (
            doctest(">>> import atexit, os, signal\n>>> _ = atexit.register(os.kill, os.getpid(), signal.SIGSEGV)"),
            2,
            ["was killed by SIGSEGV while it ended, after its last example"],
        ),
        (doctest(">>> import os\n>>> os.write(1, b'hello')\n5"), 2, ["past Python", "hello"]),
        (doctest(">>> import warnings\n>>> warnings.warn('careful')"), 2, ["UserWarning: careful"]),
        ("```{console-run}\n$ echo 1\n1\n$ echo 2\n3\n```\n", 3, ["echo 2", "Expected:\n    3"]),
        ("```{console-run}\n$ echo bad >&2; exit 1\nbad\n```\n", 1, ["exit status 1, expected 0", "bad"]),
        (
            doctest(
                ">>> import threading\n>>> thread = threading.Thread(target=lambda: 1 / 0)\n"
                ">>> thread.start(); thread.join()\n>>> 1\n2"
            ),
            3,
            ["raised in a thread or a destructor", "ZeroDivisionError"],
        ),
        (
            doctest(">>> class A:\n...     def __del__(self):\n...         1 / 0\n>>> a = A()\n>>> del a"),
            5,
            ["raised in a thread or a destructor", "ZeroDivisionError"],
        ),
        (doctest('>>> run_example("examples/none.py")'), 1, ["none.py ended with status 2, expected 0; output:"]),
        ("```{testsetup}\n1 / 0\n```\n", 1, ["ZeroDivisionError"]),
    ],
)
def test_failure_names_page_line_and_reason(repository: Repository, block: str, offset: int, parts: list[str]) -> None:
    line = repository.add(block)
    result = repository.build("doctest")
    result.assert_fault(f"index.md:{line + offset}", *parts)
    assert not (result.output / "proof.json").exists()


def test_exceptions_in_threads_may_be_shown(repository: Repository) -> None:
    repository.add(
        doctest(
            ">>> import sys, threading\n>>> thread = threading.Thread(target=sys.exit)\n"
            ">>> thread.start(); thread.join()\n"
            ">>> threading.excepthook = lambda args: print(args.exc_value)\n"
            ">>> thread = threading.Thread(target=lambda: 1 / 0)\n"
            ">>> thread.start(); thread.join()\ndivision by zero"
        )
    )
    result = repository.build("doctest")
    assert result.status == 0, result.warnings


def test_the_status_of_a_script_is_compared(repository: Repository) -> None:
    repository.write("examples/loud.py", "import sys\nprint('x')\nsys.exit('why')\n")
    repository.write("examples/checks.py", "import sys\nprint('1 of 2 checks failed')\nsys.exit(3)\n")
    repository.write("examples/fine.py", "print('OpenCL: 2 checks passed')\n")
    repository.add(doctest('>>> run_example("examples/loud.py", status=1)\nx\nwhy'))
    repository.add(doctest('>>> run_example("examples/checks.py", status=3)\n1 of 2 checks failed'))
    assert repository.build("doctest").status == 0
    for call, reason in (
        ('"examples/loud.py"', "loud.py ended with status 1, expected 0; output:\nx\nwhy"),
        ('"examples/checks.py"', "checks.py ended with status 3, expected 0; output:\n1 of 2 checks failed"),
        ('"examples/fine.py", status=1', "fine.py ended with status 0, expected 1; output:\nOpenCL: 2 checks passed"),
    ):
        line = repository.add(doctest(f">>> run_example({call})"))
        repository.build("doctest").assert_fault(f"index.md:{line + 1}", f"RuntimeError: examples/{reason}")


@pytest.mark.parametrize("block", [doctest(">>> 1 + 1\n3"), "```{testcode}\nprint(1)\n```\n"])
@pytest.mark.parametrize("colon", [False, True])
def test_line_is_right_inside_tabs_and_quotes(repository: Repository, block: str, colon: bool) -> None:
    fence = ":" if colon else "`"
    line = repository.add(
        f"{fence * 5}{{tab-set}}\n{fence * 4}{{tab-item}} Python\n\nText.\n\n{block}{fence * 4}\n{fence * 5}\n"
        + "".join(f"> {text}\n" for text in block.splitlines())
    )
    result = repository.build("doctest")
    result.assert_fault(f"index.md:{line + 6}", "Got:")
    result.assert_fault(f"index.md:{line + 8 + block.count(chr(10))}", "Got:")


@pytest.mark.long
def test_page_that_hangs_is_ended_and_named(repository: Repository) -> None:
    line = repository.add(doctest(">>> import time\n>>> time.sleep(60)"))
    repository.configure(run={"page_seconds": 1})
    result = repository.build("doctest")
    result.assert_fault(f"index.md:{line + 2}", "still running after 1 seconds", "most recent call first")


@pytest.mark.parametrize("parallel", [1, 2])
def test_each_page_runs_in_each_build_whoever_reads_it(repository: Repository, parallel: int) -> None:
    names = [f"page{number}" for number in range(6)]
    for number, name in enumerate(names):
        repository.page(f"# Page\n\n{doctest(f'>>> {number} + 1{chr(10)}{number + 1}')}", f"{name}.md")
    repository.add("```{toctree}\n" + "\n".join(names) + "\n```\n")
    for _ in range(2):  # the second time, Sphinx has already read all of them
        result = repository.build("doctest", parallel=parallel)
        assert result.status == 0, result.warnings
        pages = json.loads((result.output / "proof.json").read_text())["pages"]
        assert {name: pages[name]["ran"] for name in names} == dict.fromkeys(names, 1)


def test_build_that_ends_before_it_reads_says_why(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise LookupError("no pages")

    monkeypatch.setattr("sphinx.environment.BuildEnvironment.find_files", fail)
    with pytest.raises(LookupError, match="no pages"):
        repository.build("doctest")


def test_failing_run_withdraws_an_earlier_proof(repository: Repository) -> None:
    repository.add(doctest(">>> 1 + 1\n2"))
    assert (repository.build("doctest").output / "proof.json").is_file()
    repository.add(doctest(">>> 1 + 1\n3"))
    assert not (repository.build("doctest").output / "proof.json").exists()


def test_fault_of_the_gate_leaves_no_proof(repository: Repository) -> None:
    repository.add(doctest(">>> 1 + 1\n2") + "\n```python\n>>> 1 + 1\n3\n```\n")
    assert not (repository.build("doctest").output / "proof.json").exists()


def test_failure_is_red_again_in_the_next_run(repository: Repository) -> None:
    line = repository.add(doctest(">>> 1 + 1\n3"))
    for _ in range(2):
        repository.build("doctest").assert_fault(f"index.md:{line + 1}", "Expected:\n    3")


@pytest.mark.parametrize(
    ("code", "status", "last"),
    [
        (">>> 1 + 1\n2", 0, "doctest: 1 examples on 1 pages passed, 1 listings; proof: docs/build/doctest/proof.json"),
        (">>> 1 + 1\n3", 1, "doctest: not proven: see the faults above; there is no docs/build/doctest/proof.json"),
        (">>> import os; os._exit(0)", 1, "doctest: not proven: see the faults above"),
    ],
)
def test_prove_says_in_its_last_line_what_was_proven(repository: Repository, code: str, status: int, last: str) -> None:
    repository.add(doctest(code))
    done = prove(repository)
    assert done.returncode == status, done.stderr
    assert done.stdout.splitlines()[-1].startswith(last)


def prove(repository: Repository, *options: str, folder: str = "") -> subprocess.CompletedProcess[str]:
    """Run ``python -m weaver doctest`` in a folder of the repository."""
    return subprocess.run(
        [sys.executable, "-m", "weaver", "doctest", *options],
        cwd=repository.root / folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "weaver")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_prove_may_run_below_the_root(repository: Repository) -> None:
    repository.add(doctest(">>> 1 + 1\n2"))
    done = prove(repository, "--output", "docs/build/one", folder="docs/source")
    assert done.returncode == 0, done.stdout + done.stderr
    last = "doctest: 1 examples on 1 pages passed, 1 listings; proof: docs/build/one/proof.json"
    assert done.stdout.splitlines()[-1] == last
    assert (repository.root / "docs/build/one/proof.json").is_file()


@pytest.mark.parametrize(
    ("statement", "file"),
    [
        ("Path('model.pt2').touch()", "model.pt2"),
        ("_ = Path('LICENSE').write_text('changed')", "LICENSE"),
        ("Path('LICENSE').unlink()", "LICENSE"),
    ],
)
def test_file_that_an_example_leaves_or_changes_is_named(repository: Repository, statement: str, file: str) -> None:
    repository.write(".gitignore", "docs/build\n")
    subprocess.run(["git", "init", "--quiet"], cwd=repository.root, check=True)
    subprocess.run(["git", "add", "."], cwd=repository.root, check=True)
    repository.write("notes.txt", "The author's own, and there before.\n")
    repository.add(doctest(f">>> from pathlib import Path\n>>> {statement}"))
    done = prove(repository)
    assert done.returncode == 1
    left = f"doctest: not proven: an example left or changed {file} in the repository; write to a temporary folder"
    assert done.stdout.splitlines()[-1] == left
    assert not (repository.root / "docs/build/doctest/proof.json").exists()


def test_repository_that_git_refuses_to_read_is_a_fault(repository: Repository) -> None:
    repository.write(".git", "gitdir: nowhere\n")
    done = prove(repository)
    assert done.returncode == 1
    assert f"whether an example leaves a file in {repository.root} is unknown: fatal: not a git" in done.stderr


def test_proof_says_how_long_each_page_took(repository: Repository) -> None:
    from weaver.run.prove import slowest

    repository.page(f"# Page\n\n{doctest('>>> 1 + 1' + chr(10) + '2')}", "short.md")
    repository.add("```{toctree}\nshort\n```\n" + doctest(">>> import time\n>>> time.sleep(0.3)"))
    result = repository.build("doctest")
    pages = json.loads((result.output / "proof.json").read_text())["pages"]
    assert pages["index"]["seconds"] >= 0.3
    assert pages["short"]["processor_seconds"] > 0
    proof = repository.root / "proof.json"
    proof.write_text(json.dumps({"pages": {**pages, "short": {**pages["short"], "seconds": 0.0}}}))
    assert slowest(proof, 1).startswith("doctest: slowest pages, in seconds (of processors): index ")


def test_proof_that_is_short_is_none(repository: Repository) -> None:
    from weaver.run.prove import judge

    repository.write("proof.json", json.dumps({"pages": {"a": {"examples": 2, "ran": 1, "listings": 0}}}))
    assert judge(repository.root / "proof.json") == (False, "doctest: not proven: a ran 1 of 2")
    repository.write("proof.json", json.dumps({"pages": {"a": {"examples": 0, "ran": 0, "listings": 3}}}))
    assert judge(repository.root / "proof.json") == (False, "doctest: not proven: no page has an example")
