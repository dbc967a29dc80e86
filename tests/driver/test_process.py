"""Forks, exits, and host code that touches device memory: each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from prerequisites import compiler_command

from tests.driver import openreg as driver
from tests.driver.conftest import ROOT, RunDriver

SOURCE = Path(__file__).with_name("process_end.cpp")
HEADERS = ROOT / "csrc" / "driver"

needs_host_kernels = pytest.mark.skipif(not driver.has_host_kernels, reason="built with HOST_KERNELS=OFF")

FORK = """
def in_child(work):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            sys.stdout.flush()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("mode", ["auto", "async", "inline"])
def test_a_forked_child_gets_a_clear_error_from_every_function(run_driver: RunDriver, mode: str) -> None:
    ran = run_driver(
        FORK
        + """
pointer, stream, event = driver.malloc(100), driver.stream_create(), driver.event_create()
pinned = driver.malloc_host(100)
driver.check(driver.lib.orMemsetAsync(pointer, 1, 100, stream))
stop = threading.Event()
def busy():
    while not stop.is_set():
        driver.free(driver.malloc(100))
        driver.free_host(driver.malloc_host(100))
        driver.check(driver.lib.orMemsetAsync(pointer, 1, 100, stream))
threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads:
    thread.start()
if os.environ["OPENREG_LAUNCH"] != "inline":
    driver.sleep(0.5)
works = {"orGetLastError", "orPeekLastError", "orDriverGetVersion", "orGetDevice", "orDeviceGetStreamPriorityRange",
         "orGetKernel", "orActivitySetCorrelation"}
def child():
    out = ctypes.create_string_buffer(512)
    for name, kinds in driver.SIGNATURES.items():
        arguments = [ctypes.cast(out, kind) if hasattr(kind, "contents") else b"sleep" if kind is ctypes.c_char_p
                     else kind() for kind in kinds]
        error = getattr(driver.lib, name)(*arguments)
        if name not in works and error != driver.Error.FORKED:
            print(name, error.name, driver.detail())
    for call in (lambda: driver.lib.orFree(pointer), lambda: driver.lib.orFreeHost(pinned),
                 lambda: driver.lib.orStreamDestroy(stream), lambda: driver.lib.orEventQuery(event)):
        assert call() == driver.Error.FORKED
    print(driver.detail())
for _ in range(5):
    in_child(child)
stop.set()
for thread in threads:
    thread.join()
driver.synchronize()
print("parent", driver.read(pointer, 1))
""",
        OPENREG_LAUNCH=mode,
    )
    text = (
        "orEventQuery: this process was forked after its parent had initialized the driver, and cannot use the "
        "devices; initialize the driver after the fork only, or start the process with the 'spawn' start method"
    )
    assert ran.stdout.splitlines() == [text] * 5 + ["parent b'\\x01'"], ran.stderr


@needs_host_kernels
def test_a_forked_child_still_destroys_the_closure_of_a_refused_launch(run_driver: RunDriver) -> None:
    ran = run_driver(
        FORK
        + """
driver.device_count()
def child():
    try:
        driver.launch(b"never", lambda: None)
    except driver.DriverError as error:
        print(error.error.name)
in_child(child)
"""
    )
    assert ran.stdout == "FORKED\n", ran.stderr


def test_a_child_of_a_process_that_had_not_used_the_driver_may_use_it(run_driver: RunDriver) -> None:
    ran = run_driver(
        FORK
        + """
def child():
    pointer = driver.malloc(5)
    driver.write(pointer, b"hello")
    driver.sleep(0.001)
    driver.synchronize()
    print(driver.read(pointer, 5))
in_child(child)
in_child(lambda: in_child(child))
child()
"""
    )
    assert ran.stdout == "b'hello'\n" * 3, ran.stderr


def test_a_forked_child_ends_normally(run_driver: RunDriver) -> None:
    ran = run_driver(
        """
        driver.sleep(0.2)
        child = os.fork()
        if child == 0:
            sys.exit(7)  # runs the exit handlers
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert (ran.returncode, ran.stdout) == (0, "7\n"), ran.stderr


@pytest.mark.parametrize("fault", ["", "driver.check(driver.lib.orInjectFault(driver.Fault.HANG, 0, 1))"])
def test_a_process_ends_while_work_is_queued(run_driver: RunDriver, fault: str) -> None:
    ran = run_driver(
        f"""
        {fault}
        streams = [driver.stream_create() for _ in range(8)]
        event = driver.event_create()
        pointer = driver.malloc(100)
        for stream in streams:
            for _ in range(100):
                driver.sleep(1000, stream)
            driver.check(driver.lib.orEventRecord(event, stream))
            driver.check(driver.lib.orStreamWaitEvent(None, event))
        driver.check(driver.lib.orMemsetAsync(pointer, 1, 100, None))
        print("done")
        """
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")


def test_a_process_ends_while_a_daemon_thread_waits_for_the_device(run_driver: RunDriver) -> None:
    ran = run_driver(
        """
        driver.sleep(1000)
        threading.Thread(target=driver.synchronize, daemon=True).start()
        time.sleep(0.05)
        print("done")
        """
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")


ACCESS = """
pointer = driver.malloc(4096)
other = driver.malloc(4096)
sys.stdout.write(hex(pointer + 0x200)); sys.stdout.flush()
ctypes.string_at(pointer + 0x200, 1)
"""


def message(address: str) -> str:
    return (
        f"openreg: host code accessed device memory at openreg:0 + 0x200 (address {address}). "
        "Copy it to the host first, for example with tensor.cpu().\n"
    )


def test_touching_device_memory_is_explained(run_driver: RunDriver) -> None:
    ran = run_driver(ACCESS)
    assert ran.returncode == -signal.SIGSEGV
    assert ran.stderr == message(ran.stdout)


@pytest.mark.parametrize("order", ["before", "after"])
def test_the_explanation_goes_together_with_faulthandler(run_driver: RunDriver, order: str) -> None:
    start = ["driver.device_count()\n", "import faulthandler; faulthandler.enable()\n"]
    ran = run_driver("".join(start if order == "after" else reversed(start)) + ACCESS)
    assert ran.returncode == -signal.SIGSEGV
    assert message(ran.stdout) in ran.stderr
    assert "Fatal Python error: Segmentation fault" in ran.stderr
    assert 'File "<string>"' in ran.stderr


def test_other_faults_are_left_alone(run_driver: RunDriver) -> None:
    ran = run_driver("driver.device_count()\nctypes.string_at(8, 1)")
    assert (ran.returncode, ran.stderr) == (-signal.SIGSEGV, "")


def test_the_message_also_comes_in_a_forked_child(run_driver: RunDriver) -> None:
    ran = run_driver(
        """
        pointer = driver.malloc(4096)
        child = os.fork()
        if child == 0:
            ctypes.string_at(pointer, 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert ran.stdout == f"{-signal.SIGSEGV}\n"
    assert "host code accessed device memory at openreg:0 + 0x0" in ran.stderr


def compile_program(source: Path, program: Path, *libraries: str) -> None:
    """Compiles a program against the headers of the driver."""
    compiler = [*compiler_command(), "-std=c++20", "-O1", "-pthread"]
    subprocess.run([*compiler, str(source), "-o", str(program), f"-I{HEADERS}", *libraries], check=True)


@pytest.mark.needs("simulator")
def test_a_place_whose_handles_are_used_up_is_not_used_again(tmp_path: Path) -> None:
    compile_program(SOURCE.with_name("handle_table.cpp"), tmp_path / "handle_table")
    assert subprocess.run([tmp_path / "handle_table"], check=False).returncode == 0


@pytest.fixture(scope="module")
def process_end(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of process_end.cpp, linked to the driver under test."""
    program = tmp_path_factory.mktemp("process_end") / "process_end"
    library = driver.library_path().resolve()
    compile_program(SOURCE, program, str(library), f"-Wl,-rpath,{library.parent}")
    return program


def end(program: Path, way: str, mode: str) -> tuple[int, str, str]:
    ran = subprocess.run(
        [program, way], env={**os.environ, "OPENREG_LAUNCH": mode}, capture_output=True, text=True, timeout=60
    )
    return ran.returncode, ran.stdout, ran.stderr


@needs_host_kernels
@pytest.mark.parametrize("mode", ["auto", "async"])
@pytest.mark.parametrize("memory", ["pageable", "pinned"])
def test_memory_that_is_being_copied_outlives_the_end(process_end: Path, memory: str, mode: str) -> None:
    # Freed too early, it would end the process with SIGSEGV.
    assert [end(process_end, memory, mode) for _ in range(3)] == [(0, "", "")] * 3


AFTERWARDS = """\
idle: orSuccess, orSuccess
busy: orErrorNotReady, orErrorDeinitialized
orStreamSynchronize: the process is ending, and the work of this call was dropped
destroy: orErrorDeinitialized
copies: orErrorDeinitialized, orErrorDeinitialized
fill: orErrorDeinitialized
free: orSuccess, orSuccess
reset: orSuccess
"""


@needs_host_kernels
@pytest.mark.parametrize("mode", ["auto", "async"])
@pytest.mark.parametrize("way", ["afterwards", "destroying"])
def test_a_call_after_the_end_says_what_was_dropped(process_end: Path, way: str, mode: str) -> None:
    assert end(process_end, way, mode) == (0, AFTERWARDS, "")


def test_a_signal_that_was_sent_ends_the_process(run_driver: RunDriver) -> None:
    ran = run_driver("""
        import signal
        driver.malloc(8)
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(1)
        print("still alive")
    """)
    assert (ran.returncode, ran.stdout) == (-signal.SIGSEGV, "")


def test_a_signal_that_is_sent_and_ignored_changes_nothing(run_driver: RunDriver) -> None:
    ran = run_driver("""
        import signal
        signal.signal(signal.SIGSEGV, signal.SIG_IGN)
        driver.malloc(8)
        os.kill(os.getpid(), signal.SIGSEGV)
        print("still alive")
    """)
    assert (ran.returncode, ran.stdout) == (0, "still alive\n")
