"""Scripts that pages run are shown in HTML as shell commands with their output."""

from __future__ import annotations

import html
import re
import subprocess
import textwrap
from typing import TYPE_CHECKING

import pytest
from weaver.pages.transcripts import Part, parts, shell_command

from tests.weaver.conftest import SHOW

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository


def test_a_page_shows_what_a_reader_types(repository: Repository) -> None:
    repository.write("examples/two.py", "print(1 + 1)\n")
    repository.page('# Guide\n\n```{doctest}\n>>> run_example("examples/two.py")\n2\n>>> 1 + 2\n3\n```\n' + SHOW)
    result = repository.build()
    assert result.status == 0, result.warnings
    page = (result.output / "index.html").read_text(encoding="utf-8")
    shown = [html.unescape(re.sub("<.*?>", "", text)) for text in re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)]
    assert shown[:2] == ["$ python examples/two.py\n2\n", ">>> 1 + 2\n3\n"]
    assert 'id="example-1"' in page


def test_an_output_does_not_end_at_its_first_empty_line(repository: Repository) -> None:
    repository.write("examples/two.py", "print('1\\n\\n2')\n")
    block = '>>> run_example("examples/two.py")\n1\n<BLANKLINE>\n2\n>>> 1 + 2  # doctest: +ELLIPSIS\n3\n'
    repository.page(f"# Guide\n\n```{{doctest}}\n{block}```\n" + SHOW)
    result = repository.build()
    assert result.status == 0, result.warnings
    page = (result.output / "index.html").read_text(encoding="utf-8")
    shown = [html.unescape(re.sub("<.*?>", "", text)) for text in re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)]
    assert shown[:2] == ["$ python examples/two.py\n1\n\n2\n", ">>> 1 + 2\n3\n"]


@pytest.mark.parametrize(
    ("source", "command"),
    [
        ('run_example("examples/x.py")', "python examples/x.py"),
        (
            'run_example(\n    "examples/x.py", "a b", env={"N": "1", "M": "$x"})',
            "N=1 M='$x' python examples/x.py 'a b'",
        ),
        (
            'for n in ("1", "2"):\n    run_example("examples/x.py", env={"N": n})',
            'for n in 1 2; do N="$n" python examples/x.py; done',
        ),
        ('run_example("examples/x.py", "a", status=1)', "python examples/x.py a"),
        ('run_example("examples/x.py", path)', None),
        ('run_example("examples/x.py", *names)', None),
        ('run_example("examples/x.py", env=loud)', None),
        ('for n in ("1", "2"):\n    print(n)\n    run_example("examples/x.py")', None),
        ('_ = run_example("examples/x.py")', None),
        ("x + 1", None),
    ],
)
def test_a_call_becomes_a_command(source: str, command: str | None) -> None:
    assert shell_command(source) == command


def test_a_command_does_what_the_call_does() -> None:
    """The shell passes the same arguments and environment as the page's function."""
    command = shell_command('run_example("print.py", "a b", "$HOME", env={"N": "it\'s"})')
    assert command is not None
    stand_in = 'python() { printf "[%s]" "$N" "$@"; }; '
    ran = subprocess.run(["bash", "-c", stand_in + command], capture_output=True, text=True, check=True)
    assert ran.stdout == "[it's][print.py][a b][$HOME]"


def test_a_block_is_split_where_a_script_begins_and_ends() -> None:
    code = textwrap.dedent(
        """\
        >>> x = 1
        >>> for i in range(2):
        ...     print(i)
        0
        1
        >>> run_example("examples/x.py")
        first
        <BLANKLINE>
        third
        >>> run_example("examples/y.py")
        >>> x
        1"""
    )
    assert list(parts(code)) == [
        Part("pycon", ">>> x = 1\n>>> for i in range(2):\n...     print(i)\n0\n1"),
        Part("console", "$ python examples/x.py\nfirst\n\nthird\n$ python examples/y.py"),
        Part("pycon", ">>> x\n1"),
    ]


@pytest.mark.parametrize("code", ["1 + 1", ">>> # only a comment", ">>> 1\n1\n>>>2"])
def test_what_the_gate_refuses_has_no_parts(code: str) -> None:
    assert list(parts(code)) == []


def test_a_script_that_is_killed_stays_a_call() -> None:
    """The expected output is the exception of the page's function, which no shell prints."""
    code = '>>> run_example("x.py")\nTraceback (most recent call last):\nRuntimeError: x.py was killed by SIGSEGV\n'
    assert [part.language for part in parts(code)] == ["pycon"]
