"""The driver kit: both drivers of this repository keep the contract, and each deliberately broken one is caught."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prerequisites import compiler_command

from tests.driver.openreg import library_path

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ROOT / "csrc" / "driver"
BROKEN = Path(__file__).with_name("broken.cpp")


def cmake(source: Path, build: Path, *definitions: str) -> None:
    """Configures and builds a project."""
    for command in (
        ["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", *definitions],
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
        """Returns the checks from its JSON, after checking that the exit status and the output agree with them."""
        file = tmp_path / "results.json"
        ran = self.run(library, "--json", file, *arguments, **environment)
        found: dict[str, Any] = json.loads(file.read_text())
        assert found["library"] == str(library.resolve())
        assert ran.stdout.startswith(f"{library}: ")
        checks: list[dict[str, Any]] = found["checks"]
        assert ran.returncode == (1 if wrong(checks) else 0), ran.stdout
        assert ran.stdout.endswith(f"{len(wrong(checks))} failed\n"), ran.stdout
        explained = [check["chapter"] for check in checks if "expected" in check]
        assert re.findall(r"chapter:  (\w+)", ran.stdout) == explained
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
    """Builds a library with one defect on top of the simulated driver."""
    below = shutil.copy(library_path(), folder)
    library = folder / f"{defect}.so"
    compiler = compiler_command()
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
    assert not wrong(checks)
    chapters = {check["chapter"] for check in checks}
    of_drivers = ("copies", "kernels", "memory", "modules", "process", "sharing", "streams")
    assert chapters == {"driver", "graph", *(f"driver_{name}" for name in of_drivers)}
    # Each needs the opposite of what this device has.
    assert {check["name"]: check["reason"] for check in checks if check["outcome"] == "not offered"} == {
        "the host may use unified memory": "unified memory: has_unified_memory is 0",
        "a pair without access is refused": "devices without access to each other: 0 can use the memory of 1",
    }


def test_report_names_the_driver(kit: Kit, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    ran = kit.run(library_path(), "--json", file, "--only", "interface", OPENREG_DEVICE_COUNT="3")
    first = f"{library_path()}: driver 'simulated', 3 devices, the first 'openreg simulated accelerator'"
    assert ran.stdout.splitlines()[0] == first
    found = json.loads(file.read_text())
    assert (found["driver"], found["device"], found["devices"]) == ("simulated", "openreg simulated accelerator", 3)
    assert "problem" not in found


def test_report_says_why_a_driver_does_not_name_itself(kit: Kit, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    ran = kit.run(library_path(), "--json", file, "--only", "interface", OPENREG_DEVICE_COUNT="many")
    assert ran.returncode == 0  # the functions are there
    problem = json.loads(file.read_text())["problem"]
    assert problem.startswith("orErrorInitialization (orGetDeviceCount: ")
    assert ran.stdout.splitlines()[0] == f"{library_path()}: the driver does not name itself: {problem}"


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
        "unified memory": 1,
        "modules": 30,
        "fills with a pattern": 3,
        "2-D copies": 7,
        "registered host memory": 3,
        "stream-ordered memory": 4,
        "host functions": 6,
        "peer access": 6,
        "shared memory": 6,
        "shared events": 3,
        "graphs": 12,
        "graphs in the DOT language": 1,
        "activity": 7,
    }


def test_graphs_may_be_answered_with_not_supported(kit: Kit, tmp_path: Path) -> None:
    checks = kit.results(broken("supports_no_graphs", tmp_path), tmp_path, "--only", "graphs")
    assert outcomes(checks, "not offered") == [check["name"] for check in checks]
    assert {check["reason"] for check in checks} == {"graphs: orStreamBeginCapture answers orErrorNotSupported"}


# The groups to run, the checks that must fail, and what one of them must observe.
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
        "copy_from_the_host_overtakes",
        ["copies", "streams"],
        ["pinned copies come in the order of their stream", "work of a stream comes in order"],
        "of them differ; the first is byte",
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
    (
        "uuid_is_shared",
        ["properties"],
        ["devices have UUIDs of their own"],
        "that of device 0",
    ),
    (
        "uuid_belongs_to_the_process",
        ["properties"],
        ["a UUID is the same in each process"],
        "different ones",
    ),
    (
        "driver_has_no_name",
        ["properties"],
        ["the driver names itself"],
        "none",
    ),
    (
        "largest_allocation_is_wrong",
        ["properties"],
        ["max_allocation is kept"],
        "orSuccess",
    ),
    (
        "unified_memory_is_claimed",
        ["properties"],
        ["the host may use unified memory"],
        "it died of SIGSEGV, in or after orMemcpy; ",
    ),
    (
        "flag_is_not_boolean",
        ["properties"],
        ["the numbers are plausible"],
        "-1",
    ),
    (
        "group_size_is_unknown",
        ["properties"],
        ["a driver with modules states the limits of kernels"],
        "0, although it has modules",
    ),
    (
        "freed_memory_is_unknown",
        ["devices", "memory"],
        ["a reset frees the memory and ends streams and events", "freed memory is refused"],
        "orErrorInvalidPointer (orFree: ",
    ),
    (
        "options_are_dropped",
        ["modules"],
        [
            "options reach the compiler",
            "a module's binary can be loaded again",
            "modules do not share names",
            "threads compile at once",
        ],
        "-30",
    ),
    (
        "mistake_has_no_line",
        ["modules"],
        ["a mistake is shown with its line"],
        ":1:47: error: 'not_declared' was not declared",
    ),
    (
        "foreign_binary_is_taken",
        ["modules"],
        ["a foreign binary is refused"],
        "orSuccess",
    ),
    (
        "binary_overruns_its_room",
        ["modules"],
        ["too little room for the binary is refused"],
        "orSuccess",
    ),
    (
        "unload_forgets",
        ["modules"],
        ["unloading waits, and ends the functions"],
        "orModuleUnload returned, ",
    ),
    (
        "attributes_are_empty",
        ["modules"],
        ["a function has attributes"],
        "0",
    ),
    (
        "function_name_is_ignored",
        ["modules"],
        [
            "source text compiles",
            "a module's binary can be loaded again",
            "an unknown function is refused, with those that there are",
        ],
        "-50",
    ),
    (
        "launch_drops_the_last_group",
        ["launches"],
        [
            "work-items have ids in three dimensions",
            "every work-item runs, and once",
            "pointers may lie within an allocation",
            "groups have local memory and barriers",
            "a launch comes in the order of its stream",
        ],
        "134",
    ),
    (
        "launch_loses_offsets",
        ["launches"],
        ["pointers may lie within an allocation"],
        "1",
    ),
    (
        "launch_refuses_nothing",
        ["launches"],
        [
            "wrong arguments are refused",
            "groups that are empty or too large are refused",
            "dead handles are refused",
            "a null stream is the default stream of the module's device",
        ],
        "orSuccess",
    ),
    (
        "launch_has_a_stream_of_its_own",
        ["launches"],
        ["a launch comes in the order of its stream"],
        "0",
    ),
    (
        "launch_reads_arguments_late",
        ["launches"],
        ["arguments are copied before the launch returns", "an event waits for the launch before it"],
        "argument 0 of 'fill' is a pointer, given a value",
    ),
    (
        "launch_takes_the_current_device",
        ["launches"],
        ["a null stream is the default stream of the module's device"],
        "the module of 'fill' belongs to openreg:1 and the stream to openreg:0",
    ),
    (
        "launch_cuts_long_values",
        ["launches"],
        ["numbers are passed by value"],
        "0",
    ),
    (
        "launch_refuses_null_pointers",
        ["launches"],
        ["a pointer may be null"],
        "orErrorInvalidPointer",
    ),
    (
        "launch_is_lost_when_many_are_queued",
        ["launches"],
        ["many launches are queued"],
        "12498404",
    ),
    (
        "launch_keeps_arguments_in_the_function",
        ["launches"],
        ["threads launch one function with arguments of their own"],
        "",
    ),
    (
        "fill_knows_bytes_only",
        ["extended memory"],
        [
            "a fill repeats its pattern, and writes no byte beside",
            "wrong fills are refused",
            "a fill comes in the order of its stream",
        ],
        "0x01, where 0x02 was written",
    ),
    (
        "block_is_copied_with_its_gaps",
        ["extended memory"],
        [
            "a block goes to the device",
            "a block goes to the host",
            "a block is copied within a device",
            "a block is copied within the host",
            "a block goes from one device to another",
            "wrong blocks are refused",
            "blocks of pageable memory are copied as ordinary copies are",
        ],
        "1408 of them differ; the first is byte 37",
    ),
    (
        "pitch_is_not_checked",
        ["extended memory"],
        ["wrong blocks are refused"],
        "orSuccess",
    ),
    (
        "registration_is_forgotten",
        ["extended memory"],
        ["registered memory is pinned", "memory is registered once"],
        "orSuccess",
    ),
    (
        "unregistering_does_not_wait",
        ["extended memory"],
        ["registered memory is pinned", "registered memory takes part in queued copies", "memory is registered once"],
        "orHostUnregister returned, ",
    ),
    (
        "ordered_memory_is_reused_early",
        ["extended memory"],
        ["stream-ordered memory is freed after the work before it", "stream-ordered memory comes back, and runs out"],
        "0x64, where 0x07 was written",
    ),
    (
        "host_function_does_not_queue",
        ["host functions"],
        ["a host function runs between the copies around it", "no host function is called after a failure"],
        "a call",
    ),
    (
        "host_function_is_dropped",
        ["host functions"],
        [
            "a host function runs between the copies around it",
            "streams and events wait for a host function",
            "each host function is called once, in order",
            "wrong host functions are refused",
        ],
        "it has not",
    ),
    (
        "peers_disagree",
        ["peers"],
        ["the answers agree"],
        "different ones",
    ),
    (
        "peer_is_enabled_once",
        ["peers"],
        ["a device that does not exist is refused", "enabling and disabling twice is no error"],
        "orErrorInvalidValue",
    ),
    (
        "peer_access_is_not_enabled",
        ["peers"],
        ["a device that does not exist is refused", "a kernel uses the memory of another device"],
        "lies on openreg:1, and the function runs on openreg:0",
    ),
    (
        "shared_memory_is_a_copy",
        ["sharing"],
        [
            "two processes see the same bytes",
            "open memory is closed and not freed",
            "a stream waits for a stream of another process",
        ],
        "300000 of them differ; the first is byte 0",
    ),
    (
        "shared_memory_is_freed_like_any",
        ["sharing"],
        ["open memory is closed and not freed"],
        "orSuccess",
    ),
    (
        "shared_event_is_of_one_process",
        ["sharing"],
        [
            "a stream waits for a stream of another process",
            "a process that was killed is noticed",
        ],
        "memory that another process wrote before it recorded the event",
    ),
    (
        "captured_work_runs_at_once",
        ["graphs"],
        ["captured work runs with each launch, and only then"],
        " of them differ; the first is byte 0: ",
    ),
    (
        "graph_launch_forgets_its_stream",
        ["graphs"],
        ["a launch comes in the order of its stream"],
        "4079 of them differ; the first is byte 1: 0x03",
    ),
    (
        "captured_stream_is_always_ready",
        ["graphs"],
        ["what would wait for captured work is refused"],
        "orSuccess",
    ),
    (
        "capture_mode_is_forgotten",
        ["graphs"],
        ["the mode says whose waits are refused"],
        "orSuccess",
    ),
    (
        "lost_work_is_no_error",
        ["graphs"],
        ["work without a way back is noticed"],
        "orSuccess",
    ),
    (
        "only_its_thread_discards",
        ["graphs"],
        ["a capture is discarded"],
        "orErrorInvalidValue",
    ),
    (
        "activity_loses_records",
        ["activity"],
        [
            "copies and fills are seen, with their bytes",
            "the records of a stream follow each other, and none is missing",
            "work carries the correlation of its thread",
        ],
        "38",
    ),
    (
        "activity_counts_from_boot",
        ["activity"],
        ["device and time are right"],
        " to ",
    ),
    (
        "activity_has_no_bytes",
        ["activity"],
        [
            "copies and fills are seen, with their bytes",
            "the records of a stream follow each other, and none is missing",
        ],
        "0",
    ),
    (
        "activity_has_no_correlation",
        ["activity"],
        ["work carries the correlation of its thread"],
        "0",
    ),
    (
        "activity_does_not_stop",
        ["activity"],
        ["device and time are right", "nothing comes after the stop"],
        "2",
    ),
    (
        "activity_starts_twice",
        ["activity"],
        ["there is one recording at a time"],
        "orSuccess",
    ),
    (
        "activity_has_no_names",
        ["activity"],
        ["kernels are seen, with their names"],
        "''",
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


def test_no_process_is_left_when_the_kit_is_ended(kit: Kit, tmp_path: Path) -> None:
    command = [str(kit.program), "--only", "streams", "--limit", "600", str(broken("hang", tmp_path))]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        # A check that hangs is the one that is still there a second later.
        before, now = "", "none"
        while before != now:
            before = children.read_text()
            time.sleep(1)
            now = children.read_text() or "none"
        running.kill()
    process = Path("/proc", now.strip(), "stat")
    end = time.monotonic() + 60
    while process.exists() and ") Z " not in process.read_text():  # a zombie has ended
        assert time.monotonic() < end
        time.sleep(0.05)


def test_hang_at_the_end_of_the_process_is_named(kit: Kit, tmp_path: Path) -> None:
    checks = kit.results(broken("hang_at_exit", tmp_path), tmp_path, "--only", "interface", "--limit", "1")
    assert {check["seen"] for check in checks} == {"it did not end within 1000 ms, at its end, after the check itself"}


def test_what_a_driver_refuses_to_offer_is_no_failure(kit: Kit, tmp_path: Path) -> None:
    checks = kit.results(broken("no_pinned_memory", tmp_path), tmp_path, "--only", "memory")
    assert not wrong(checks)
    assert {check["reason"] for check in checks if check["outcome"] == "not offered"} == {
        "pinned memory: orMallocHost answers orErrorNotSupported",
        "pinned memory: orFreeHost answers orErrorNotSupported",
    }


def test_freed_memory_need_not_be_known_where_addresses_are_shared(kit: Kit, tmp_path: Path) -> None:
    library = broken("freed_memory_is_unknown_and_unified", tmp_path)
    checks = kit.results(library, tmp_path, "--only", "memory", "--only", "devices")
    assert not wrong(checks)
    assert {check["name"]: check["reason"] for check in checks if check["outcome"] == "not offered"} == {
        "freed memory is refused": "freed memory told from memory of the host: the device has the host's addresses"
    }


def test_modules_without_a_compiler_are_not_offered(kit: Kit, tmp_path: Path) -> None:
    checks = kit.results(broken("no_modules", tmp_path), tmp_path, "--only", "modules", "--only", "launches")
    assert {check["outcome"] for check in checks} == {"not offered"}
    assert {check["reason"] for check in checks} == {"modules of source text: orModuleLoad answers orErrorNotSupported"}


def test_part_that_is_half_there_is_a_failure(kit: Kit, tmp_path: Path) -> None:
    half = tmp_path / "half.cpp"
    half.write_text(
        '#include "openreg_modules.h"\n'
        "orError_t orModuleLoad(orModule_t*, orModuleFormat, const void*, size_t, const char*) {\n"
        "  return orErrorNotSupported;\n"
        "}\n"
    )
    library = tmp_path / "half.so"
    sources = [half, *(HEADERS / name for name in ("error.cpp", "config.cpp")), *(HEADERS / "minimal").glob("*.cpp")]
    compiler = [*compiler_command(), "-std=c++20", "-shared", "-fPIC", "-I", str(HEADERS)]
    subprocess.run([*compiler, *map(str, sources), "-o", str(library)], check=True)
    found = wrong(kit.results(library, tmp_path, "--only", "interface", "--only", "modules", "--only", "peers"))
    part = found.pop("the parts of the optional headers are there as a whole, or not at all")
    assert part["seen"] == (
        "modules: it has orModuleLoad, but not orModuleUnload, orModuleGetFunction, orFunctionGetAttributes, "
        "orLaunchFunction"
    )
    assert len(found) == 12
    assert {(check["group"], check["reason"]) for check in found.values()} == {("modules", "orModuleUnload")}


def test_the_minimal_driver_can_be_copied(kit: Kit, tmp_path: Path) -> None:
    """Away from the repository, with the path of the files that the drivers share, or with these files in it."""
    mine = tmp_path / "my_driver"
    shutil.copytree(HEADERS / "minimal", mine)
    ran = subprocess.run(["cmake", "-S", mine, "-B", tmp_path / "b", "-G", "Ninja"], capture_output=True, text=True)
    assert ran.returncode == 1
    said = " ".join(ran.stderr.split())
    assert (
        f"{mine} needs config.cpp, config.h, error.cpp, error.h, exports.map, openreg.h of the backend's csrc/driver: "
        "set OPENREG_DRIVER_COMMON to that folder, or copy these files into this one." in said
    )
    cmake(mine, tmp_path / "b", f"-DOPENREG_DRIVER_COMMON={HEADERS}")
    assert not wrong(kit.results(tmp_path / "b" / "libopenreg.so", tmp_path))
    for name in ("config.cpp", "config.h", "error.cpp", "error.h", "exports.map", "openreg.h"):
        shutil.copy(HEADERS / name, mine)
    cmake(mine, tmp_path / "whole")
    assert not wrong(kit.results(tmp_path / "whole" / "libopenreg.so", tmp_path, "--only", "interface"))


def test_missing_functions_are_named(kit: Kit, tmp_path: Path) -> None:
    library = tmp_path / "devices_only.so"
    sources = [HEADERS / name for name in ("error.cpp", "config.cpp", "minimal/driver.cpp", "minimal/device.cpp")]
    compiler = [*compiler_command(), "-std=c++20", "-shared", "-fPIC", "-I", str(HEADERS)]
    subprocess.run([*compiler, *map(str, sources), "-o", str(library)], check=True)
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
        (
            ["--only", "magic", "x"],
            "there is no group 'magic'; valid are interface, errors, devices, properties, memory, ",
        ),
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
    check, _ = found.values()
    assert check["expected"] == f"the library {file} can be loaded"
    assert "invalid ELF header" in check["seen"] or "file too short" in check["seen"]
