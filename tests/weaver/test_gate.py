from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

UNPROVEN = "unproven code block"


@pytest.mark.parametrize(
    ("block", "offset", "message"),
    [
        ("```python\n>>> 1 + 1\n3\n```\n", 1, UNPROVEN),
        ("```pycon\n>>> 1 + 1\n3\n```\n", 1, UNPROVEN),
        ("```doctest\n>>> 1 + 1\n3\n```\n", 1, UNPROVEN),
        ("```cpp\nint a;\n```\n", 1, UNPROVEN),
        ("```text\nany output\n```\n", 1, UNPROVEN),
        ("```\nany text\n```\n", 1, UNPROVEN),
        ("```{code-block} python\nprint(1)\n```\n", 1, UNPROVEN),
        ("```{parsed-literal}\nany text\n```\n", 1, UNPROVEN),
        ("Text.\n\n    indented()\n", 2, UNPROVEN),
        ("```{eval-rst}\n.. code-block:: c\n\n   int a;\n```\n", 3, UNPROVEN),
        ("```{doctest}\n1 + 1\n```\n", 1, "without a `>>>` example"),
        ("```{doctest}\n>>> # only a comment\n```\n", 1, "without a `>>>` example"),
        ("```{doctest}\n>>> 1\n1\n>>>2\n```\n", 3, "a prompt without a space"),
        ("```{doctest}\n>>> 1\n1\n>>> 2  # doctest: +SKIP\n3\n```\n", 3, "+SKIP is refused"),
        ("```{doctest}\n:options: +SKIP\n\n>>> 1\n2\n```\n", 3, "+SKIP is refused"),
        ("```{doctest}\n:skipif: True\n\n>>> 1\n2\n```\n", 3, "has :skipif:"),
        ("```{doctest}\n:pyversion: < 3\n\n>>> 1\n2\n```\n", 3, "+SKIP is refused"),
        ("```{testcode}\n:skipif: True\n\nprint(1)\n```\n", 3, "has :skipif:"),
        ("```{doctest}\n>>> 1/0  # doctest: +IGNORE_EXCEPTION_DETAIL\n```\n", 1, "+IGNORE_EXCEPTION_DETAIL is refused"),
        ("```{testcode}\nprint(1)\n```\n\n```{testoutput}\n...\n```\n", 5, "matches anything"),
        ("```{testcode}\nprint(1)\n```\n\n```{testoutput}\n...\n\n...\n```\n", 5, "matches anything"),
        ("```{console-run}\n$ a\n1\n$ b\n...\n...\n```\n", 3, "the output of this command matches anything"),
        ("```{testoutput}\n1\n```\n", 1, "does not follow a {testcode}"),
        ("```{doctest}\n>>> 1\n1\n```\n\n```{testoutput}\n1\n```\n", 6, "does not follow a {testcode}"),
        (
            "```{testcode}\nprint(1)\n```\n```{testoutput}\n1\n```\n\n```{testoutput}\n2\n```\n",
            8,
            "does not follow a {testcode}",
        ),
        ("```{testcode}\n# nothing\n```\n", 1, "is empty"),
        ("```{testcode}\na = 1\nif a\n```\n", 2, "is not Python"),
        ("```{testcode} *\nprint(1)\n```\n", 1, "give a block one group"),
        ("Some text:\n>>> 1 + 1\n3\n", 1, "a bare `>>>`"),
        (">>> 1 + 1\n", 0, "a bare `>>>`"),
        ("Some text >>> 1 + 1\n", 0, "a bare `>>>`"),
        ("<pre>code</pre>\n", 0, "raw HTML that shows code"),
        ("![](picture.svg)\n", 0, "an image without an alternative text"),
        ("```{image} picture.svg\n:alt:\n```\n", 0, "an image without an alternative text"),
        ("```{glossary}\nkernel\n```\n", 1, "`kernel` has no definition"),
        ("```{glossary}\nABI\n  How code calls other code.\n\nkernel\n```\n", 4, "`kernel` has no definition"),
        ("# Another guide\n", 0, "a second title"),
        ("```{testcod}\nprint(1)\n```\n", 0, "Unknown directive type: 'testcod'"),
        ("```console\n$ rm -rf /\n```\n", 1, "`rm -rf /` is no line of .ci/run"),
        ("```console\n$ make html\ndone\n```\n", 2, "output `done` in a console block is not compared"),
        ("```{console-run}\nno command\n```\n", 1, "before the first"),
        ("See `csrc/none.cpp`.\n", 0, "`csrc/none.cpp` is named, but is not in the repository"),
        ("{source}`csrc/none.cpp`\n", 0, "no file csrc/none.cpp"),
        ("{source}`csrc/hooks.cpp#hooks-stop`\n", 0, "has no region `hooks-stop`"),
        ("{source}`stop <csrc/hooks.cpp@Hooks::stop>`\n", 0, "occurs in 0 lines"),
        ("```{whole-sources}\ncsrc/hooks.cpp\ncsrc/none.cpp\n```\n", 2, "no file csrc/none.cpp"),
    ],
)
def test_fault_names_page_and_line(repository: Repository, block: str, offset: int, message: str) -> None:
    repository.write(".ci/run", "make html\n")
    repository.write("docs/source/picture.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>\n")
    line = repository.add(block)
    repository.build().assert_fault(f"index.md:{line + offset}", message)


@pytest.mark.parametrize("fence", ["```python\nprint(1)\n```", "```{doctest}\n1 + 1\n```"])
def test_fault_inside_a_tab_has_the_right_line(repository: Repository, fence: str) -> None:
    line = repository.add(f"`````{{tab-set}}\n````{{tab-item}} Python\n\nText.\n\n{fence}\n````\n`````\n")
    repository.build().assert_fault(f"index.md:{line + 6}")


def test_fault_on_an_included_page_is_found(repository: Repository) -> None:
    repository.page("```python\nprint(1)\n```\n", "part.txt")
    repository.add("```{include} part.txt\n```\n")
    result = repository.build()
    assert result.status != 0
    assert UNPROVEN in result.warnings


def test_proven_blocks_pass(repository: Repository) -> None:
    repository.write(".ci/run", "set -eu\nmake html\n")
    repository.write("examples/hello.py", "print('hello')\n")
    repository.write("docs/source/picture.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>\n")
    repository.add(
        "```{doctest}\n>>> 1 + 1\n2\n```\n"
        "```{testcode}\nprint(1)\n```\n```{testoutput}\n1\n```\n"
        "```{testsetup}\na = 1\n```\n"
        "```console\n$ make html\n```\n"
        "```{console-run}\n$ python examples/hello.py\nhello\n```\n"
        "```{literalinclude} /examples/hello.py\n```\n"
        "```{whole-sources}\ncsrc/hooks.cpp\n```\n"
        "```{glossary}\nABI\ninterface\n  How code calls other code.\n```\n## A section\n"
        "![A picture](picture.svg)\n\n"
        "The prompt `>>>`, and `csrc/hooks.cpp`, `torch_openreg/lib/a.so`, `docs/build/html`,\n"
        "and {source}`init <csrc/hooks.cpp@Hooks::init>`.\n"
    )
    result = repository.build()
    assert result.status == 0, result.warnings
    html = (result.output / "index.html").read_text()
    assert 'href="sources/csrc/hooks.cpp.html#L6">init</a>' in html.replace(
        ' class="source-link reference internal"', ""
    )
    assert "LITERALINCLUDE" not in html


def test_example_that_its_page_does_not_run_fails(repository: Repository) -> None:
    repository.write("examples/hello.py", "print('hello')\n")
    line = repository.add("```{literalinclude} /examples/hello.py\n```\n")
    repository.build().assert_fault(
        f"index.md:{line}", "examples/hello.py is shown, but no example of this page runs it"
    )


def test_source_that_an_executed_script_uses_passes(repository: Repository) -> None:
    repository.write("examples/hello.cpp", "int a;\n")
    repository.write("examples/hello.py", "print('compiles nothing')\n")
    run = "```{console-run}\n$ python examples/hello.py\ncompiles ...\n```\n"
    line = repository.add("```{literalinclude} /examples/hello.cpp\n```\n" + run)
    repository.build().assert_fault(f"index.md:{line}", "examples/hello.cpp is shown, but no example of this page runs")
    repository.write("examples/hello.py", "print('compiles hello.cpp')\n")
    result = repository.build()
    assert result.status == 0, result.warnings
    repository.write("examples/hello.py", "print('compiles nothing any more')\n")
    repository.build().assert_fault(f"index.md:{line}", "examples/hello.cpp is shown")


@pytest.mark.parametrize(
    "code",
    [
        ">>> 1  # examples/a.py\n1",
        ">>> run_example('examples/b.py')",
        ">>> run_example('examples/a.py2.py')",
        ">>> from a_b import c",
    ],
)
def test_name_in_a_comment_or_in_another_name_runs_nothing(repository: Repository, code: str) -> None:
    repository.write("examples/a.py", "print('a')\n")
    repository.write("examples/b.py", "print('mama.py', 'a.py.old')  # as in a.py\n")
    line = repository.add(f"```{{literalinclude}} /examples/a.py\n```\n```{{doctest}}\n{code}\n```\n")
    repository.build().assert_fault(f"index.md:{line}", "examples/a.py is shown, but no example of this page runs it")


@pytest.mark.parametrize(
    "code",
    [
        ">>> run_example('examples/a.py')",
        ">>> run_example('examples/b.py')",
        ">>> from a import b  # examples/a.py",
        ">>> if True print('examples/a.py')\nTraceback (most recent call last):\nSyntaxError: invalid syntax",
    ],
)
def test_name_that_is_a_whole_word_runs_it(repository: Repository, code: str) -> None:
    repository.write("examples/a.py", "print('a')\n")
    repository.write("examples/b.py", '"""Runs lib/a.py."""\n')
    repository.add(f"```{{literalinclude}} /examples/a.py\n```\n```{{doctest}}\n{code}\n```\n")
    result = repository.build()
    assert result.status == 0, result.warnings


def test_region_that_no_page_shows_fails(repository: Repository) -> None:
    repository.page("# Guide\n")
    repository.build().assert_fault("csrc/hooks.cpp:4", "no page shows region `hooks-init`")


def test_whole_sources_do_not_count_as_shown(repository: Repository) -> None:
    repository.page("# Guide\n\n```{whole-sources}\ncsrc/hooks.cpp\n```\n")
    repository.build().assert_fault("csrc/hooks.cpp:4", "no page shows region `hooks-init`")


def test_new_region_fails_in_an_incremental_build(repository: Repository) -> None:
    assert repository.build().status == 0
    repository.write("csrc/event.h", "// LITERALINCLUDE START: event-wait\nint a;\n// LITERALINCLUDE END: event-wait\n")
    repository.build().assert_fault("csrc/event.h:1", "no page shows region `event-wait`")


def test_command_of_a_script_that_nothing_calls_is_no_proof(repository: Repository) -> None:
    repository.write("tests/build/install.sh", "pip install .\n")
    line = repository.add("```console\n$ pip install .\n```\n")
    repository.build().assert_fault(f"index.md:{line + 1}", "`pip install .` is no line")
    repository.write(".ci/run", "tests/build/install.sh\n")
    result = repository.build()
    assert result.status == 0, result.warnings
    repository.write("tests/build/install.sh", "pip install --user .\n")
    repository.build().assert_fault(f"index.md:{line + 1}", "`pip install .` is no line")
