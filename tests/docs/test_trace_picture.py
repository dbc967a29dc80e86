"""``{trace-picture}`` on traces that are written by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.weaver.conftest import Repository

CALL = "privateuse1_runtime"
RANGE = ":range: step\n"
ALT = ":alt: A step.\n"


def event(category: str, name: str, begin: float, duration: float, **more: object) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": duration, "pid": 1, "tid": 1, **more}


STEP = [
    event("user_annotation", "step 1", 0, 90),  # longer than the one that is drawn
    event("user_annotation", "step 2", 100, 50),
    event("cpu_op", "aten::mm", 110, 20),
    event(CALL, "orLaunchKernel", 112, 6, args={"correlation": 7}),
    event("kernel", "matrix <product>", 130, 40, pid=0, tid=3, args={"correlation": 7}),
    event("kernel", "of another step", 300, 10, pid=0, tid=3, args={"correlation": 8}),
]


def page(repository: Repository, events: list[dict[str, Any]], options: str = RANGE + ALT) -> int:
    """A page with the picture of such a trace. Returns the line of the directive."""
    source = f"import pathlib, sys\npathlib.Path(sys.argv[1]).write_text({json.dumps({'traceEvents': events})!r})\n"
    repository.write("trace.py", source)
    return repository.add(f"```{{trace-picture}} trace.py\n{options}\nThe *step*.\n```\n")


def test_the_shortest_range_is_drawn_until_its_last_kernel_ends(repository: Repository) -> None:
    page(repository, STEP)
    result = repository.build()
    assert result.status == 0, result.warnings
    html = (result.output / "index.html").read_text()
    assert 'aria-label="A step."' in html
    assert "<em>step</em>" in html
    # From 100 to 170, the end of the kernel: it takes 40 of 70 parts of the width.
    assert "<title>matrix &lt;product&gt;: 40.0 us</title>" in html
    (kernel,) = [line for line in html.splitlines() if "matrix &lt;product&gt;: 40" in line]
    assert float(kernel.partition('width="')[2].partition('"')[0]) == pytest.approx((760 - 104 - 4) * 40 / 70, abs=0.01)
    assert html.count('fill="none" style="stroke:') == 1  # the arrow from the call to the kernel
    assert "of another step" not in html


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        (STEP[:1], "nothing ran on a device in 'step 1'"),
        (STEP[2:], "the trace has no range 'step'"),
    ],
)
def test_what_cannot_be_drawn_is_a_fault(repository: Repository, events: list[dict[str, Any]], fault: str) -> None:
    line = page(repository, events)
    repository.build().assert_fault(f"index.md:{line}", "trace-picture trace.py: ", fault)


def test_a_script_that_fails_is_a_fault(repository: Repository) -> None:
    line = page(repository, STEP)
    repository.write("trace.py", "raise SystemExit('no device')\n")
    repository.build().assert_fault(f"index.md:{line}", "trace-picture trace.py: ", "no device")


@pytest.mark.parametrize(
    ("options", "fault"),
    [(RANGE, ":alt: must be given"), (ALT, ":range: must be given"), ("", ":alt: and :range: must be given")],
)
def test_an_option_that_is_missing_is_named(repository: Repository, options: str, fault: str) -> None:
    line = page(repository, STEP, options)
    repository.build().assert_fault(f"index.md:{line}", "trace-picture trace.py: ", fault)
