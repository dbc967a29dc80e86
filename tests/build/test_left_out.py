"""Which folders of tests are left out on a driver that is not the simulated device."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from driver import Driver

from tests import conftest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("driver", "arguments", "left_out"),
    [
        (Driver("/drivers/mine", "ON"), ["tests"], ["driver", "opinfo"]),
        (Driver("/drivers/mine", "ON"), ["tests/opinfo"], ["driver"]),
        (Driver("/drivers/mine", "ON"), ["tests/runtime", "tests/opinfo/test_opinfo.py::test_values"], ["driver"]),
        (Driver("csrc/driver", "OFF"), ["tests"], ["opinfo"]),
        (Driver("csrc/driver", "ON"), ["tests"], []),
        (None, ["tests"], []),
    ],
    ids=str,
)
def test_folders_of_the_guide_are_left_out_unless_they_are_named(
    driver: Driver | None, arguments: list[str], left_out: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "installed", lambda: driver)
    config = cast("pytest.Config", SimpleNamespace(args=arguments, invocation_params=SimpleNamespace(dir=ROOT)))
    ignored = [
        name
        for name in ("driver", "opinfo", "runtime")
        if conftest.pytest_ignore_collect(ROOT / "tests" / name / "test_x.py", config)
    ]
    assert ignored == left_out
    header = conftest.pytest_report_header(config)
    assert all(any(f"tests/{name}" in line for line in header) for name in left_out)
