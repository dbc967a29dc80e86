"""The tables of where the time goes, read from the files that the targets write."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import loop

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_x[1|2]" time="1.5"/><testcase classname="tests.a" name="test_y" time="2.0"/>
<testcase classname="tests.b" name="test_z" time="3.0"><skipped/></testcase>
</testsuite></testsuites>"""


def test_what_the_targets_leave_is_read(tmp_path: Path) -> None:
    proof = {"pages": {f"accelerator/{name}": {"seconds": seconds} for name, seconds in (("a", 2.0), ("b", 7.25))}}
    for path, content in {
        "build/loop/steps.tsv": "   277\tmake html\n    90\tmake check\n",
        "build/loop/checks.tsv": "1.0\tpython_lint\n80.0\tcxx_alone\n",
        "build/loop/tests.xml": JUNIT,
        "docs/build/doctest/proof.json": json.dumps(proof),
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    assert [table.rows for table in loop.tables(tmp_path)] == [
        [(277.0, "`make html`"), (90.0, "`make check`")],
        [(7.25, "`accelerator/b`"), (2.0, "`accelerator/a`")],
        [(3.5, "`tests.a`"), (3.0, "`tests.b`")],
        [(3.0, "`tests.b::test_z`"), (2.0, "`tests.a::test_y`"), (1.5, "`tests.a::test_x[1|2]`")],
        [(80.0, "`cxx_alone`"), (1.0, "`python_lint`")],
    ]
    written = "".join(map(loop.text, loop.tables(tmp_path)))
    assert "| 1.5 | `tests.a::test_x[1/2]` |\n" in written


def test_what_has_not_run_is_named(tmp_path: Path) -> None:
    said = [loop.text(table).splitlines()[-1] for table in loop.tables(tmp_path)]
    assert said[1] == "Not known: `make doctest` leaves `proof.json`, which is not there."
    assert len(said) == 5
