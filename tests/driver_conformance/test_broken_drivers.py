"""The kit on drivers: both of this repository keep the contract, and each that is broken on purpose is found out."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.driver.openreg import library_path

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "csrc" / "driver"
BROKEN = Path(__file__).with_name("broken.cpp")


def cmake(source: Path, build: Path) -> None:
    """Configures and builds a project."""
    for command in (
        ["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug"],
        ["cmake", "--build", str(build)],
    ):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def outcomes(checks: list[dict[str, Any]], outcome: str) -> list[str]:
    return [check["name"] for check in checks if check["outcome"] == outcome]


def wrong(checks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in checks if check["outcome"] not in ("passed", "not offered")}


@dataclass(frozen=True)
class Kit:
    """The program, built once."""

    program: Path

    def run(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs it, and returns what it printed."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OPENREG_")}
        return subprocess.run(
            [str(self.program), *map(str, arguments)],
            env=inherited | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def results(self, library: Path, tmp_path: Path, *arguments: str, **environment: str) -> list[dict[str, Any]]:
        """What it found, from its JSON; the exit status agrees with it."""
        file = tmp_path / "results.json"
        ran = self.run(library, "--json", file, *arguments, **environment)
        found: dict[str, Any] = json.loads(file.read_text())
        assert found["library"] == str(library.resolve())
        checks: list[dict[str, Any]] = found["checks"]
        assert ran.returncode == (1 if wrong(checks) else 0), ran.stdout
        assert ran.stdout.endswith(f"{len(wrong(checks))} failed\n"), ran.stdout
        return checks


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    build = tmp_path_factory.mktemp("kit")
    cmake(ROOT / "conformance" / "driver", build)
    return Kit(build / "driver_conformance")


@pytest.fixture(scope="module")
def minimal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("minimal")
    cmake(HEADERS / "minimal", build)
    return build / "libopenreg.so"


def broken(defect: str, folder: Path) -> Path:
    """A library with one defect that lies over the simulated driver."""
    below = shutil.copy(library_path(), folder)
    library = folder / f"{defect}.so"
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    options = [
        "-std=c++20",
        "-shared",
        "-fPIC",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-DDEFECT_{defect}",
        "-I",
        str(HEADERS),
    ]
    link = [str(below), f"-Wl,-rpath,{folder}", "-Wl,--no-as-needed"]
    subprocess.run([*compiler, *options, str(BROKEN), "-o", str(library), *link[1:], link[0], "-ldl"], check=True)
    return library


@pytest.mark.parametrize("mode", ["auto", "async"])
def test_simulated_driver_passes_every_check(kit: Kit, tmp_path: Path, mode: str) -> None:
    checks = kit.results(library_path(), tmp_path, OPENREG_LAUNCH=mode)
    assert {check["outcome"] for check in checks} == {"passed"}, wrong(checks)


def test_what_one_device_cannot_show_is_not_offered(kit: Kit, tmp_path: Path) -> None:
    checks = kit.results(library_path(), tmp_path, "--only", "devices", OPENREG_DEVICE_COUNT="1")
    absent = [check for check in checks if check["outcome"] == "not offered"]
    assert [check["name"] for check in absent] == [
        "the current device can be changed",
        "the current device belongs to the thread",
    ]
    assert {check["reason"] for check in absent} == {"a second device: orGetDeviceCount says that there is one"}
    assert not wrong(checks)


def test_inline_mode_offers_nothing_asynchronous(kit: Kit, tmp_path: Path) -> None:
    checks = kit.results(library_path(), tmp_path, "--only", "events", "--only", "streams", OPENREG_LAUNCH="inline")
    assert outcomes(checks, "not offered") == [
        "a query says when the work is over",
        "a launch does not wait",
        "one stream does not hold up another",
        "a stream that waits does not hold up the host",
        "a query says when the event has passed",
        "a query of an event with time does too",
        "an event does not wait for later work",
    ]
    assert not wrong(checks)


def test_minimal_driver_passes_what_it_offers(kit: Kit, tmp_path: Path, minimal: Path) -> None:
    checks = kit.results(minimal, tmp_path)
    assert not wrong(checks)
    absent: dict[str, int] = {}
    for check in checks:
        if check["outcome"] == "not offered":
            absent[check["reason"].split(":")[0]] = absent.get(check["reason"].split(":")[0], 0) + 1
    assert absent == {
        "work behind the caller's back": 9,
        "priorities": 1,
        "faults on request": 8,
        "a host view of device memory": 1,
        "host code as a kernel": 2,
    }


# The groups asked, the checks that must fail, and what one of them has seen.
DEFECTS = [
    (
        "event_completes_too_early",
        ["events"],
        ["a query says when the event has passed", "a query of an event with time does too"],
        "orEventQuery said that the stream has passed the event, ",
    ),
    (
        "copy_drops_the_last_byte",
        ["copies"],
        [
            "every byte arrives, queued on a stream",
            "within a device",
            "from one device to another",
            "a pageable source is read before the call returns",
            "a pageable target is written when the call returns",
            "pinned copies come in the order of their stream",
            "a waiting copy comes after the default stream's work",
        ],
        "1 of them differ; the first is byte ",
    ),
    (
        "copy_reads_its_source_late",
        ["copies"],
        ["a pageable source is read before the call returns"],
        "of them differ; the first is byte 0: 0xee, where 0x16 was written",
    ),
    (
        "query_is_always_ready",
        ["errors", "streams"],
        ["not ready is an answer and no error", "a query says when the work is over"],
        "orStreamQuery said that all is finished, ",
    ),
    (
        "query_is_never_ready",
        ["streams"],
        [
            "every device has a default stream",
            "a stream belongs to the device that was current",
            "a query says when the work is over",
        ],
        "orErrorNotReady",
    ),
    (
        "free_forgets",
        ["memory", "limits"],
        [
            "freeing gives the bytes back",
            "freed memory is refused",
            "what orMalloc did not return is refused",
            "what orMallocHost did not return is refused",
            "memory can be freed while another device is current",
            "freeing waits for the work that is queued",
            "memory that was used up comes back",
            "memory can be taken and freed for ever",
        ],
        "orFree returned, ",
    ),
    (
        "error_is_swallowed",
        ["failures"],
        [
            "a failed kernel is reported by orDeviceSynchronize",
            "a failure stays until the reset",
            "other devices go on",
            "a lost device says so",
        ],
        "orSuccess",
    ),
    (
        "exhaustion_is_silent",
        ["limits"],
        ["more memory than there is is refused", "memory that was used up comes back"],
        "orSuccess",
    ),
    (
        "wait_is_forgotten",
        ["streams"],
        ["a stream waits for an event of another", "a stream waits for an event of another device"],
        "4096 of them differ; the first is byte 0: 0x00, where 0x08 was written",
    ),
    (
        "device_belongs_to_the_process",
        ["devices"],
        ["the current device belongs to the thread"],
        "1",
    ),
    ("time_is_in_seconds", ["events"], ["elapsed time is in milliseconds"], "0.05"),
    ("text_is_empty", ["errors"], ["the text names the function and what it was given"], "''"),
    ("child_is_not_refused", ["processes"], ["a forked child is refused, at once"], "orGetDeviceCount"),
    (
        "crash",
        ["streams"],
        ["priorities are kept within the range"],
        "it died of SIGSEGV, in or after orStreamGetPriority; its last words: broken driver: about to crash",
    ),
]


@pytest.mark.parametrize(("defect", "groups", "names", "seen"), DEFECTS, ids=[row[0] for row in DEFECTS])
def test_defect_is_found_and_named(
    kit: Kit, tmp_path: Path, defect: str, groups: list[str], names: list[str], seen: str
) -> None:
    asked = [word for group in groups for word in ("--only", group)]
    found = wrong(kit.results(broken(defect, tmp_path), tmp_path, *asked))
    assert list(found) == names, found
    assert any(seen in check["seen"] for check in found.values()), found


def test_hang_is_named_and_the_rest_goes_on(kit: Kit, tmp_path: Path) -> None:
    checks = kit.results(broken("hang", tmp_path), tmp_path, "--only", "streams", "--limit", "4")
    assert outcomes(checks, "hung") == ["priorities are kept within the range"]
    assert len(outcomes(checks, "passed")) == len(checks) - 1
    hung = next(check for check in checks if check["outcome"] == "hung")
    assert hung["seen"] == "it did not end within 4000 ms, in or after orStreamGetPriority"


def test_hang_at_the_end_of_the_process_is_named(kit: Kit, tmp_path: Path) -> None:
    checks = kit.results(broken("hang_at_exit", tmp_path), tmp_path, "--only", "interface", "--limit", "1")
    assert [check["seen"] for check in checks] == ["it did not end within 1000 ms, at its end, after the check itself"]


def test_what_a_driver_refuses_to_offer_is_no_failure(kit: Kit, tmp_path: Path) -> None:
    checks = kit.results(broken("no_pinned_memory", tmp_path), tmp_path, "--only", "memory")
    assert not wrong(checks)
    assert {check["reason"] for check in checks if check["outcome"] == "not offered"} == {
        "pinned memory: orMallocHost answers orErrorNotSupported",
        "pinned memory: orFreeHost answers orErrorNotSupported",
    }


def test_missing_functions_are_named(kit: Kit, tmp_path: Path) -> None:
    library = tmp_path / "devices_only.so"
    sources = [HEADERS / name for name in ("error.cpp", "config.cpp", "minimal/driver.cpp", "minimal/device.cpp")]
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    subprocess.run([*compiler, "-std=c++20", "-shared", "-fPIC", *map(str, sources), "-o", str(library)], check=True)
    checks = kit.results(library, tmp_path, "--only", "interface", "--only", "kernels")
    found = wrong(checks)
    assert next(iter(found)) == "the library has every function of openreg.h"
    absent = found["the library has every function of openreg.h"]["seen"]
    assert absent.startswith("the library does not have orDeviceSynchronize, orDeviceReset, orMalloc, orFree, ")
    kernels = [
        "an unknown kernel is refused",
        "wrong arguments are refused",
        "arguments are read before the launch returns",
    ]
    assert list(found)[1:] == kernels
    assert {(found[name]["outcome"], found[name]["reason"]) for name in kernels} == {("missing", "orGetKernel")}


def test_list_names_every_check_and_runs_none(kit: Kit) -> None:
    ran = kit.run("--list", "--only", "kernels")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[:3] == [
        "kernels",
        "  an unknown kernel is refused",
        "      a kernel that is missing in the device's library is an exception",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "magic", "x"], "there is no group 'magic'; valid are interface, errors, devices, memory, copies, "),
        ([], "name the library to be tested"),
        (["/nowhere.so"], "'/nowhere.so': No such file or directory"),
        (["--limit", "soon", "x"], "--limit is 'soon'; valid is a number of seconds from 1 to 3600"),
        (["--fast", "x"], "'--fast' is not understood"),
        (["--json"], "--json needs a value"),
    ],
)
def test_wrong_usage_is_refused(kit: Kit, arguments: list[str], message: str) -> None:
    ran = kit.run(*arguments)
    assert ran.returncode == 2
    assert ran.stderr.startswith(f"driver_conformance: {message}")
    assert "usage: driver_conformance" in ran.stderr


def test_file_that_is_no_library_is_named(kit: Kit, tmp_path: Path) -> None:
    file = tmp_path / "text.so"
    file.write_text("no library\n")
    found = wrong(kit.results(file, tmp_path, "--only", "interface"))
    (check,) = found.values()
    assert check["expected"] == f"the library {file} can be loaded"
    assert "invalid ELF header" in check["seen"] or "file too short" in check["seen"]
