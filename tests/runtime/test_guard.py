from __future__ import annotations

import ctypes
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from prerequisites import compiler_command

from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE
from tests.runtime.busy import sleep_on

Probe = Callable[..., str]
LAST = torch.accelerator.device_count() - 1
TORCH = Path(torch.__file__).parent
HEADER = TORCH / "include" / "c10" / "core" / "impl" / "DeviceGuardImplInterface.h"
SOURCE = Path(__file__).with_name("guard_probe.cpp")


def out_of_range(index: int) -> str:
    return (
        f"openreg: device index {index} was asked for, but the valid indices are 0 to {LAST} "
        "(OPENREG_DEVICE_COUNT sets the number of devices)"
    )


@pytest.fixture(autouse=True)
def initialized(first_device: None) -> None:
    torch.openreg.init()


@pytest.fixture(scope="module")
def probe_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("guard") / "guard_probe.so"
    compiler = [*compiler_command(), "-std=c++20", "-shared", "-fPIC", "-isystem", str(TORCH / "include")]
    subprocess.run([*compiler, str(SOURCE), "-o", str(library), f"-L{TORCH / 'lib'}", "-lc10"], check=True)
    return library


@pytest.fixture(scope="module")
def probe(probe_library: Path) -> Probe:
    """Calls a member: `probe(name, index, number)`, where the number is a stream's id, a priority, or an event."""
    function = ctypes.CDLL(str(probe_library)).probe
    function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64]
    function.restype = ctypes.c_char_p

    def call(name: str, index: int = 0, number: int = 0, owner: str = "registered") -> str:
        return str(function(owner.encode(), name.encode(), index, number).decode())

    return call


# Devices.


def test_the_members_that_switch_devices(probe: Probe) -> None:
    assert probe("type") == "openreg"
    assert probe("deviceCount") == str(LAST + 1)
    assert probe("getDevice") == "openreg:0"
    assert probe("exchangeDevice", LAST) == "openreg:0"
    assert probe("getDevice") == LAST_DEVICE == f"openreg:{torch.openreg.current_device()}"
    assert probe("exchangeDevice", LAST) == LAST_DEVICE
    assert probe("exchangeDevice", -1) == LAST_DEVICE
    assert probe("setDevice", -1) == "done"
    assert probe("getDevice") == LAST_DEVICE
    assert probe("setDevice", 0) == "done"
    assert probe("getDevice") == "openreg:0"
    assert probe("uncheckedSetDevice", LAST) == "done"
    assert probe("getDevice") == LAST_DEVICE


def test_guards(probe: Probe) -> None:
    assert probe("DeviceGuard", LAST) == f"openreg:0 {LAST_DEVICE}"
    assert probe("DeviceGuard", -1) == "openreg:0 openreg:0"
    assert probe("OptionalDeviceGuard", LAST) == f"false {LAST_DEVICE}"
    assert probe("getDevice") == "openreg:0"


@pytest.mark.needs("two devices")
def test_each_thread_has_its_own_device(probe: Probe) -> None:
    answers: list[str] = []

    def work() -> None:
        answers.extend((probe("getDevice"), probe("setDevice", 1), probe("getDevice")))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == ["openreg:0", "done", "openreg:1"]
    assert probe("getDevice") == "openreg:0"


@pytest.mark.parametrize("index", [LAST + 1, LAST + 8, 127])
@pytest.mark.parametrize(
    "member",
    [
        "exchangeDevice",
        "setDevice",
        "synchronizeDevice",
        "getDeviceCapability",
        "getStream",
        "getDefaultStream",
        "getNewStream",
        "getStreamFromGlobalPool",
        "exchangeStream",
        "getStreamNativeHandle",
        "queryStream",
        "synchronizeStream",
        "record",
        "DeviceGuard",
        "OptionalDeviceGuard",
    ],
)
def test_an_index_out_of_range_is_refused(probe: Probe, member: str, index: int) -> None:
    assert probe(member, index) == out_of_range(index)
    assert probe("getDevice") == "openreg:0"


def test_synchronize_device_waits_for_that_device(probe: Probe) -> None:
    stream = torch.accelerator.current_stream(LAST)
    sleep_on(stream, 200)
    for other in range(LAST):
        assert probe("synchronizeDevice", other) == "done"
        assert not stream.query()
    assert probe("synchronizeDevice", LAST) == "done"
    assert stream.query()
    assert probe("getDevice") == "openreg:0"


def test_synchronize_every_way() -> None:
    torch.openreg.synchronize()
    torch.openreg.synchronize(LAST_DEVICE)
    torch.accelerator.synchronize()
    torch.accelerator.synchronize(LAST_DEVICE)


@pytest.mark.filterwarnings(
    "ignore:Casting complex values to real", "ignore:(Complex|BComplex).* support is experimental"
)
def test_capability_lists_what_can_be_converted(probe: Probe) -> None:
    supported = torch.accelerator.get_device_capability("openreg:0")["supported_dtypes"]
    assert probe("getDeviceCapability", LAST) == str(len(supported)) == str(21 + hasattr(torch, "bcomplex32"))
    for one in supported:
        tensor = torch.ones(3).to(one).to("openreg")
        for other in supported:
            assert torch.equal(tensor.to(other).cpu().to(torch.complex128), torch.ones(3, dtype=torch.complex128)), (
                other
            )


def test_what_cannot_be_converted_is_not_in_the_capability() -> None:
    supported = torch.accelerator.get_device_capability("openreg:0")["supported_dtypes"]
    dtypes = {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
    for dtype in dtypes - supported:
        with pytest.raises((RuntimeError, NotImplementedError)):
            torch.ones(3).to(dtype)


# Streams.


def test_the_members_that_give_streams(probe: Probe) -> None:
    assert probe("getStream", LAST) == probe("getDefaultStream", LAST) == f"{LAST_DEVICE} 0"
    assert probe("getStream", -1) == "openreg:0 0"
    device, identity = probe("getNewStream", LAST).split()
    assert device == LAST_DEVICE
    assert probe("exchangeStream", LAST, int(identity)) == f"{LAST_DEVICE} 0"
    assert probe("getStream", LAST) == f"{LAST_DEVICE} {identity}"
    assert probe("getDefaultStream", LAST) == f"{LAST_DEVICE} 0"
    assert [probe("getStream", other) for other in range(LAST)] == [f"openreg:{other} 0" for other in range(LAST)]
    assert probe("getDevice") == "openreg:0"
    assert probe("exchangeStream", LAST, 0) == f"{LAST_DEVICE} {identity}"


def test_the_pools_of_the_priorities_are_two(probe: Probe) -> None:
    normal = {probe("getStreamFromGlobalPool", LAST, 0) for _ in range(40)}
    high = {probe("getStreamFromGlobalPool", LAST, 1) for _ in range(40)}
    assert len(normal) == len(high) == 32
    assert not normal & high
    assert probe("getNewStream", LAST, -1) in high
    assert probe("getNewStream", LAST, 0) in normal


def test_the_members_that_ask_a_stream(probe: Probe) -> None:
    stream = torch.Stream(LAST_DEVICE)
    assert probe("getStreamNativeHandle", LAST, stream.stream_id) == str(stream.native_handle)
    assert int(probe("getStreamNativeHandle", LAST, 0)) > 0
    assert probe("isStreamCapturing", LAST, stream.stream_id) == "false"
    sleep_on(stream, 200)
    assert probe("queryStream", LAST, stream.stream_id) == "false"
    assert probe("synchronizeStream", LAST, stream.stream_id) == "done"
    assert probe("queryStream", LAST, stream.stream_id) == "true"
    assert probe("recordDataPtrOnStream", LAST, stream.stream_id) == "done"


def test_a_stream_that_does_not_exist_is_refused(probe: Probe) -> None:
    for member in ("exchangeStream", "getStreamNativeHandle", "queryStream", "synchronizeStream"):
        assert probe(member, LAST, 12345).startswith("orErrorInvalidHandle: the stream, event or kernel does not exist")
    stream = torch.Stream(LAST_DEVICE)
    for other in range(LAST):
        assert probe("queryStream", other, stream.stream_id) == (
            f"openreg: stream {stream.stream_id} on device openreg:{other} does not exist: "
            f"a stream of {LAST_DEVICE} has this id"
        )


# Events.


def test_the_members_of_events(probe: Probe) -> None:
    stream = torch.accelerator.current_stream(LAST)
    start = int(probe("record", LAST))
    torch.accelerator.synchronize(LAST)
    assert probe("queryEvent", 0, start) == "true"
    sleep_on(stream, 200)
    end = int(probe("record", LAST))
    assert probe("queryEvent", 0, end) == "false"
    other = torch.accelerator.current_stream(0)
    assert probe("block", 0, end) == "done"
    sleep_on(other, 0)
    assert not other.query()
    assert probe("synchronizeEvent", 0, end) == "done"
    assert probe("queryEvent", 0, end) == "true"
    torch.accelerator.synchronize(0)
    assert probe("elapsedTime", LAST, start) == "true"
    for event in (start, end):
        assert probe("destroyEvent", LAST, event) == "done"
        assert probe("queryEvent", LAST, event).startswith("orErrorInvalidHandle")


def test_an_event_that_was_never_recorded(probe: Probe) -> None:
    assert probe("queryEvent") == "true"
    assert probe("synchronizeEvent") == probe("block", LAST) == probe("destroyEvent") == "done"
    assert probe("elapsedTime").startswith("openreg: elapsed_time needs two events that have been recorded")


# Members that must not throw.


def test_noexcept_members_warn(probe: Probe) -> None:
    refused = "done; warning: orErrorInvalidDevice: no device has this index (orSetDevice: device {} does not exist; "
    for index in (9, -1):
        assert probe("uncheckedSetDevice", index).startswith(refused.format(index))
    assert probe("getDevice") == "openreg:0"
    assert probe("destroyEvent", 0, 12345).startswith("done; warning: orErrorInvalidHandle: ")


PROBE = """
import ctypes, os, sys, torch
function = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else os.environ["PROBE"]).probe
function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64]
function.restype = ctypes.c_char_p
def probe(name, index=0, number=0):
    return function(b"registered", name.encode(), index, number).decode()
"""


def test_noexcept_members_in_a_forked_child(run_process: RunProcess, probe_library: Path) -> None:
    done = run_process(
        PROBE
        + f"""
torch.openreg.set_device({LAST})
event = int(probe("record", {LAST}))
if (child := os.fork()) == 0:
    print(probe("uncheckedSetDevice", 0), probe("destroyEvent", {LAST}, event), probe("getDevice"))
    print(probe("deviceCount"))
    for member in ("setDevice", "synchronizeDevice", "getStream", "getDeviceCapability", "record"):
        print(probe(member, {LAST}))
    sys.stdout.flush()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(probe("queryEvent", {LAST}, event), probe("getDevice"))
""",
        PROBE=str(probe_library),
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"done done {LAST_DEVICE}"
    assert lines[1].startswith("0; warning: openreg reports no device: orErrorForked: ")
    assert [line.partition(":")[0] for line in lines[2:-1]] == ["orErrorForked"] * 5
    assert lines[-1] == f"true {LAST_DEVICE}"


def test_device_count_without_a_driver(run_process: RunProcess, probe_library: Path) -> None:
    done = run_process(
        PROBE
        + """
print(probe("deviceCount"))
print(probe("setDevice", 0))
os.environ["OPENREG_DEVICE_COUNT"] = "1"
print(probe("deviceCount"), probe("getDevice"))
""",
        PROBE=str(probe_library),
        OPENREG_DEVICE_COUNT="none",
    )
    reason = (
        "orErrorInitialization: the driver could not start (orGetDeviceCount: OPENREG_DEVICE_COUNT is 'none'; "
        "valid is a number from 1 to 16)"
    )
    assert done.stdout.splitlines() == [
        f"0; warning: openreg reports no device: {reason}",
        reason,
        "1 openreg:0",
    ], done.stderr


# The defaults of members that a backend leaves out.


@pytest.mark.parametrize(
    ("member", "answer"),
    [
        ("getDefaultStream", "Backend doesn't support acquiring a default stream."),
        ("getStreamFromGlobalPool", "Backend doesn't support acquiring a stream from pool."),
        ("getNewStream", "Backend doesn't support create a new Stream."),
        ("getStreamNativeHandle", "Backend doesn't support getting stream native handle."),
        ("queryStream", "Backend doesn't support querying streams."),
        ("synchronizeStream", "Backend doesn't support synchronizing streams."),
        ("isStreamCapturing", "false"),
        ("recordDataPtrOnStream", "done"),
        ("record", "Backend doesn't support events."),
        ("block", "Backend doesn't support events."),
        ("queryEvent", "Backend doesn't support events."),
        ("synchronizeEvent", "Backend doesn't support synchronizing events."),
        ("destroyEvent", "done"),
        ("getDeviceCapability", "Backend doesn't support getting device capabilities."),
        ("synchronizeDevice", "Backend doesn't support synchronizing all streams on device."),
    ],
)
def test_a_member_that_is_left_out(probe: Probe, member: str, answer: str) -> None:
    assert probe(member, owner="bare") == answer


def test_without_a_guard_the_message_names_the_device_type(run_process: RunProcess) -> None:
    done = run_process("import torch; torch.Stream('privateuseone')", status=1, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stderr.endswith("RuntimeError: PyTorch is not linked with support for privateuseone devices\n")


# Autograd.


@pytest.mark.needs("two devices")
def test_backward_across_devices() -> None:
    x = torch.arange(6.0, requires_grad=True)
    y = (x.to("openreg:0") * 3).to("openreg:1").exp()
    (y.sum() * 2).backward()
    expected = torch.autograd.grad(((x * 3).exp().sum() * 2), x)[0]
    torch.testing.assert_close(x.grad, expected)


@pytest.mark.needs("two devices")
def test_autograd_has_a_thread_for_each_device() -> None:
    seen: dict[str, tuple[int, int]] = {}

    def look(tensor: torch.Tensor) -> None:
        def hook(gradient: torch.Tensor) -> None:
            seen[str(gradient.device)] = torch.openreg.current_device(), threading.get_ident()

        tensor.register_hook(hook)

    first, second = (torch.ones(3, device=f"openreg:{index}", requires_grad=True) for index in (0, 1))
    look(first)
    look(second)
    (first.to("openreg:1") * second).sum().backward()
    assert {name: device for name, (device, _) in seen.items()} == {"openreg:0": 0, "openreg:1": 1}
    assert len({threading.get_ident(), *(thread for _, thread in seen.values())}) == 3
