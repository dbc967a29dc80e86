"""What PyTorch's test class for PrivateUse1 devices needs from a backend: names are removed one at a time."""

from __future__ import annotations

import contextlib
import io
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

import torch

with warnings.catch_warnings(action="ignore", category=ImportWarning):  # hypothesis is optional for PyTorch
    from torch.testing._internal import common_device_type
    from torch.testing._internal.common_device_type import (
        PrivateUse1TestBase,
        deviceCountAtLeast,
        dtypes,
        dtypesIfPRIVATEUSE1,
        instantiate_device_type_tests,
        onlyCUDA,
        onlyPRIVATEUSE1,
    )
    from torch.testing._internal.common_utils import TestCase


# LITERALINCLUDE START: opinfo-base-made
def made() -> type[unittest.TestCase]:
    """Creates the device's tests from a class, as a test file does when it is imported."""

    class TestBase(TestCase):
        def test_one(self, device: str) -> None:
            assert torch.empty(1, device=device).device.type == "openreg"

        @deviceCountAtLeast(2)
        def test_two(self, devices: list[str]) -> None:
            assert [str(torch.empty(1, device=device).device) for device in devices] == devices

        @onlyPRIVATEUSE1
        def test_ours(self, device: str) -> None:
            assert device == "openreg:0"

        @onlyCUDA
        def test_theirs(self, device: str) -> None:
            assert torch.zeros(2, device=device).tolist() == [0, 0]

    scope = {"TestBase": TestBase}
    instantiate_device_type_tests(TestBase, scope, only_for="openreg")
    return next(iter(scope.values()))


# LITERALINCLUDE END: opinfo-base-made


# LITERALINCLUDE START: opinfo-base-names
@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """Removes a name from the device module, and makes PyTorch look at the module again."""
    value = getattr(torch.openreg, name)
    delattr(torch.openreg, name)
    forget()
    try:
        yield
    finally:
        setattr(torch.openreg, name, value)
        forget()


def forget() -> None:
    """Does what PyTorch's module does on import: checks whether there is a device, and knows no name for it."""
    PrivateUse1TestBase.device_type = "privateuse1"
    with contextlib.suppress(AttributeError):
        del PrivateUse1TestBase.primary_device
    common_device_type.device_type_test_bases[:] = common_device_type.get_device_type_test_bases()


def made_and_run() -> str:
    """Creates and runs the tests, and returns the outcome."""
    try:
        return outcome(made())
    except StopIteration:
        return "no class is made for the device"
    except AttributeError as error:
        return f"AttributeError: {error}"


def outcome(tests: type[unittest.TestCase]) -> str:
    """Runs tests, and returns how that ended."""
    ran = unittest.TextTestRunner(io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(tests))
    skipped = "".join(f", skipped: {reason}" for _, reason in ran.skipped)
    return f"{ran.testsRun} run, {len(ran.failures) + len(ran.errors)} failed{skipped}"


# LITERALINCLUDE END: opinfo-base-names


# LITERALINCLUDE START: opinfo-base-named
def dtypes_of_test() -> str:
    """Creates a test that should get another dtype on a PrivateUse1 device, and returns what it got."""

    class TestDtypes(TestCase):
        @dtypes(torch.float32)
        @dtypesIfPRIVATEUSE1(torch.int64)
        def test(self, device: str, dtype: torch.dtype) -> None:
            assert torch.zeros(1, dtype=dtype, device=device).dtype == dtype

    scope: dict[str, Any] = {"TestDtypes": TestDtypes}
    instantiate_device_type_tests(TestDtypes, scope, only_for="openreg")
    ((name, tests),) = scope.items()
    return f"{name}.{unittest.defaultTestLoader.getTestCaseNames(tests)[0]}: {outcome(tests)}"


# LITERALINCLUDE END: opinfo-base-named


def main() -> None:
    """Prints the outcome of each case."""
    print(f"with all names: {made_and_run()}")
    PrivateUse1TestBase.bypass_device_restrictions = True
    print(f"without restrictions: {made_and_run()}")
    PrivateUse1TestBase.bypass_device_restrictions = False
    for name in ("is_available", "current_device", "device_count"):
        with without(name):
            print(f"without {name}: {made_and_run()}")
    print(f"the first class: {dtypes_of_test()}")
    print(f"the second: {dtypes_of_test()}")
    forget()
    PrivateUse1TestBase.setUpClass()
    print(f"named before: {dtypes_of_test()}")


if __name__ == "__main__":
    main()
