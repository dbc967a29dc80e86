"""The environment variables."""

from __future__ import annotations

import pytest

from tests.driver.conftest import RunDriver

COUNT = "orGetDeviceCount: OPENREG_DEVICE_COUNT is '{}'; valid is a number from 1 to 16"
MEMORY = (
    "orGetDeviceCount: OPENREG_DEVICE_MEMORY is '{}'; valid is a number of bytes from 32M to 1024G, with or without "
    "one of the suffixes K, M and G"
)
BAD_COUNTS = ("", "0", "17", "-1", "two", "2 ", "2K", "1e1", "9" * 30)
BAD_MEMORIES = ("", "31M", "1025G", "4g", "4GB", "G", "4 G", "-4G", "0x40000000", "99999999999G")
LAUNCH = "orGetDeviceCount: OPENREG_LAUNCH is '{}'; valid are auto, async and inline"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("OPENREG_DEVICE_COUNT", value, COUNT) for value in BAD_COUNTS]
    + [("OPENREG_DEVICE_MEMORY", value, MEMORY) for value in BAD_MEMORIES]
    + [("OPENREG_LAUNCH", value, LAUNCH) for value in ("", "Auto", "sync", "async ")],
)
def test_a_bad_value_is_named(run_driver: RunDriver, name: str, value: str, text: str) -> None:
    ran = run_driver(
        """
        count = ctypes.c_int()
        for _ in range(2):
            print(driver.lib.orGetDeviceCount(ctypes.byref(count)).name, driver.detail())
        print(driver.lib.orGetLastError().name)
        """,
        **{name: value},
    )
    assert ran.stdout.splitlines() == [f"INITIALIZATION {text.format(value)}"] * 2 + ["INITIALIZATION"], ran.stderr


@pytest.mark.parametrize(
    ("value", "total"),
    [("32M", 32 << 20), ("33554432", 32 << 20), ("40000K", 40 << 20), ("8G", 8 << 30), ("1024G", 1 << 40)],
)
def test_memory_per_device(run_driver: RunDriver, value: str, total: int) -> None:
    ran = run_driver(
        """
        free, total = driver.mem_get_info()
        print(total)
        size = min(total, 64 << 20)
        pointer = driver.malloc(size)
        driver.check(driver.lib.orMemset(pointer, 7, size))
        print(driver.read(pointer + size - 1, 1))
        """,
        OPENREG_DEVICE_MEMORY=value,
    )
    assert ran.stdout.splitlines() == [str(total), repr(b"\7")], ran.stderr


@pytest.mark.parametrize("count", [1, 3, 16])
def test_device_count(run_driver: RunDriver, count: int) -> None:
    ran = run_driver(
        """
        print(driver.device_count())
        for device in range(driver.device_count()):
            driver.set_device(device)
            pointer = driver.malloc(8)
            driver.write(pointer, bytes([device] * 8))
            assert driver.attributes(pointer).device == device
            assert driver.read(pointer, 8) == bytes([device] * 8)
        """,
        OPENREG_DEVICE_COUNT=str(count),
    )
    assert (ran.returncode, ran.stdout) == (0, f"{count}\n"), ran.stderr


def test_a_mistake_can_be_mended_in_the_process(run_driver: RunDriver) -> None:
    ran = run_driver(
        """
        assert driver.lib.orDeviceSynchronize() == driver.Error.INITIALIZATION
        os.environ["OPENREG_DEVICE_COUNT"] = "1"
        print(driver.device_count())
        """,
        OPENREG_DEVICE_COUNT="none",
    )
    assert ran.stdout == "1\n", ran.stderr


def test_too_little_address_space(run_driver: RunDriver) -> None:
    ran = run_driver(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        print(driver.lib.orDeviceSynchronize().name, driver.detail())
        """
    )
    assert ran.stdout == (
        "INITIALIZATION orDeviceSynchronize: 32 GiB of address space for 2 devices of 4096 MiB could not be reserved "
        "(Cannot allocate memory); lower OPENREG_DEVICE_COUNT or OPENREG_DEVICE_MEMORY, or raise the limit "
        "(ulimit -v)\n"
    ), ran.stderr
