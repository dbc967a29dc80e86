"""The driver over OpenCL keeps the contract, wherever an OpenCL platform is installed."""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from prerequisites import compiler_command

ROOT = Path(__file__).resolve().parents[2]


def lacking() -> str:
    """What this machine lacks of OpenCL; "" if it has a platform."""
    compiler = compiler_command()
    asked = [*compiler, "-fsyntax-only", "-include", "CL/cl.h", "-x", "c++", os.devnull]
    if subprocess.run(asked, capture_output=True, check=False).returncode != 0:
        return "the headers of OpenCL (opencl-headers)"
    library = ctypes.util.find_library("OpenCL")
    if library is None:
        return "the loader of OpenCL (ocl-icd-opencl-dev)"
    platforms = ctypes.c_uint()
    ctypes.CDLL(library).clGetPlatformIDs(0, None, ctypes.byref(platforms))
    return "" if platforms.value else "a platform of OpenCL (pocl-opencl-icd)"


LACKING = lacking()
pytestmark = pytest.mark.skipif(
    bool(LACKING), reason=f"the driver over OpenCL is not run: this machine lacks {LACKING}"
)


def cmake(source: Path, build: Path, *definitions: str) -> None:
    """Configures and builds a project."""
    for command in (
        ["cmake", "-S", str(source), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", *definitions],
        ["cmake", "--build", str(build)],
    ):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("kit")
    cmake(ROOT / "conformance" / "driver", build)
    return build / "driver_conformance"


@pytest.fixture(scope="module", params=["OFF", "ON"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("opencl")
    cmake(ROOT / "csrc" / "driver" / "opencl", build, f"-DOPENREG_HOST_KERNELS={request.param}")
    return build / "libopenreg.so"


def environment(**variables: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("OPENREG_")} | variables


@pytest.mark.parametrize("mode", ["auto", "inline"])
def test_no_check_fails(kit: Path, library: Path, tmp_path: Path, mode: str) -> None:
    file = tmp_path / "results.json"
    ran = subprocess.run(
        [kit, library, "--json", file],
        env=environment(OPENREG_LAUNCH=mode),
        capture_output=True,
        text=True,
        check=False,
    )
    checks: list[dict[str, Any]] = json.loads(file.read_text())["checks"]
    outcomes = {check["name"]: check["outcome"] for check in checks}
    assert set(outcomes.values()) <= {"passed", "not offered"}, ran.stdout
    groups = {check["group"] for check in checks if check["outcome"] == "passed"}
    assert groups >= {"modules", "launches", "extended memory", "host functions", "peers", "activity"}, ran.stdout


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"OPENREG_OPENCL_PLATFORM": "no such platform"},
            "OPENREG_OPENCL_PLATFORM is 'no such platform', which is part of no platform's name; the platforms here: '",
        ),
        ({"OPENREG_DEVICE_COUNT": "many"}, "OPENREG_DEVICE_COUNT is 'many'; valid is a number from 1 to 16"),
    ],
)
def test_wrong_environment_is_refused(kit: Path, library: Path, variables: dict[str, str], message: str) -> None:
    ran = subprocess.run(
        [kit, library, "--only", "devices"],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert message in ran.stdout


def test_device_memory_can_be_limited(kit: Path, library: Path) -> None:
    ran = subprocess.run(
        [kit, library, "--only", "memory", "--only", "limits", "--only", "extended memory"],
        env=environment(OPENREG_DEVICE_MEMORY="64M"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def run(library: Path, code: str, **variables: str) -> str:
    """Runs code in a process of its own, with the bindings of this driver as `driver` and `lib`; what it printed."""
    prelude = """
import ctypes, mmap, sys, threading, time
from tests.driver import openreg as driver
from tests.driver.openreg import Error, Kind, lib
"""
    ran = subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(code)],
        cwd=ROOT,
        env=environment(OPENREG_DRIVER_LIBRARY=str(library)) | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


# What a host may do to the driver: refuse threads, on request, and fork a helper while OpenCL starts.
HOST = """
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

static bool refused = false;

extern "C" void refuse_threads(bool yes) { refused = yes; }

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* user) {
  const auto create = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return refused ? EAGAIN : create(thread, attributes, run, user);
}

extern "C" int clGetPlatformIDs(unsigned count, void* platforms, unsigned* found) {
  if (const pid_t helper = fork()) {
    waitpid(helper, nullptr, 0);
  } else {
    _exit(0);
  }
  using Get = int (*)(unsigned, void*, unsigned*);
  void* const loader = dlopen("libOpenCL.so.1", RTLD_NOW);
  return reinterpret_cast<Get>(dlsym(loader, "clGetPlatformIDs"))(count, platforms, found);
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library to preload."""
    library = tmp_path_factory.mktemp("host") / "libhost.so"
    compiler = compiler_command()
    command = [*compiler, "-std=c++20", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library), "-ldl"]
    subprocess.run(command, input=HOST, text=True, check=True)
    return str(library)


def test_a_platform_may_fork_a_helper_while_it_starts(library: Path, host: str) -> None:
    run(library, "driver.device_count()", LD_PRELOAD=host)


def test_without_a_thread_for_it_a_host_function_is_refused(library: Path, host: str) -> None:
    run(
        library,
        """
        host, stream = ctypes.CDLL(None), driver.stream_create()
        pointer, calls = driver.malloc(4), []
        driver.check(lib.orMemsetAsync(pointer, 1, 4, stream))
        driver.synchronize(stream)
        function = driver.HOST_FUNCTION(calls.append)
        host.refuse_threads(True)
        assert lib.orLaunchHostFunction(stream, function, 1) == Error.MEMORY_ALLOCATION
        assert "orLaunchHostFunction: the host has no thread left" in driver.detail()
        host.refuse_threads(False)
        driver.check(lib.orMemsetAsync(pointer, 2, 4, stream))
        driver.synchronize(stream)
        driver.check(lib.orLaunchHostFunction(stream, function, 2))
        driver.synchronize(stream)
        assert calls == [2]
        """,
        LD_PRELOAD=host,
    )


def test_a_host_function_may_not_call_the_driver(library: Path) -> None:
    run(
        library,
        """
        stream, codes = driver.stream_create(), []
        function = driver.HOST_FUNCTION(lambda _: codes.append(lib.orStreamSynchronize(stream)))
        driver.check(lib.orLaunchHostFunction(stream, function, None))
        driver.synchronize(stream)
        assert codes == [Error.NOT_SUPPORTED]
        """,
    )


def test_the_work_of_a_stream_that_is_being_destroyed_is_waited_for(library: Path) -> None:
    run(
        library,
        """
        stream, event = driver.stream_create(), driver.event_create(driver.EVENT_DISABLE_TIMING)
        pointer, gate, opened = driver.malloc(4), threading.Event(), []
        held = driver.HOST_FUNCTION(lambda _: opened.append(gate.wait(20)))
        driver.check(lib.orEventRecord(event, stream))
        driver.check(lib.orLaunchHostFunction(stream, held, None))
        destroying = threading.Thread(target=lambda: driver.check(lib.orStreamDestroy(stream)))
        destroying.start()
        while lib.orMemsetAsync(pointer, 0, 4, stream) != Error.INVALID_HANDLE:
            time.sleep(0.001)
        driver.check(lib.orEventQuery(event))  # does not wait
        assert opened == []
        threading.Timer(0.2, gate.set).start()
        driver.synchronize()
        assert opened == [True]
        destroying.join()
        assert lib.orStreamQuery(stream) == Error.INVALID_HANDLE
        """,
    )


def test_a_copy_whose_later_row_is_refused_leaves_nothing_queued(library: Path) -> None:
    run(
        library,
        """
        pointer, stream = driver.malloc(1 << 20), driver.stream_create()
        driver.check(lib.orMemset(pointer, 0, 1 << 20))
        driver.check(lib.orMemset(pointer + 8192, 1, 1000))
        driver.sleep(0.2, stream)
        # From row 8 on, a row overlaps its own source.
        copied = lib.orMemcpy2DAsync(pointer, 2048, pointer + 8192, 1024, 1000, 20, Kind.DEFAULT, stream)
        assert copied == Error.INVALID_VALUE
        driver.check(lib.orStreamQuery(stream))
        assert driver.read(pointer, 1001) == bytes([1] * 1000 + [0])
        """,
    )


def test_memory_that_is_freed_during_a_reset_is_freed_once(library: Path) -> None:
    run(
        library,
        """
        stop = threading.Event()
        def allocate():
            pointer = ctypes.c_void_p()
            while not stop.is_set():
                if lib.orMalloc(ctypes.byref(pointer), 4096) == Error.SUCCESS:
                    lib.orFreeAsync(pointer, None)  # a reset may have freed it
        threads = [threading.Thread(target=allocate) for _ in range(3)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + 1
        while time.monotonic() < end:
            driver.check(lib.orDeviceReset())
        stop.set()
        for thread in threads:
            thread.join()
        driver.synchronize()
        free, total = driver.mem_get_info()
        assert free == total
        driver.malloc(total)
        """,
        OPENREG_DEVICE_MEMORY="64M",
    )


def test_stream_ordered_allocation_does_not_wait(library: Path) -> None:
    run(
        library,
        """
        def malloc_async(size, stream):
            pointer = ctypes.c_void_p()
            return lib.orMallocAsync(ctypes.byref(pointer), size, stream), pointer.value
        _, total = driver.mem_get_info()
        busy, other = driver.stream_create(), driver.stream_create()
        code, pointer = malloc_async(total, busy)
        driver.check(code)
        driver.sleep(0.5, busy)
        driver.check(lib.orFreeAsync(pointer, busy))
        assert malloc_async(1 << 20, other)[0] == Error.MEMORY_ALLOCATION
        assert lib.orStreamQuery(busy) == Error.NOT_READY
        driver.malloc(1 << 20)  # waits
        driver.check(lib.orStreamQuery(busy))
        """,
        OPENREG_DEVICE_MEMORY="64M",
    )


def test_a_small_block_does_not_keep_a_large_one_out(library: Path) -> None:
    run(library, "driver.malloc(1 << 20); driver.malloc(300 << 20)", OPENREG_DEVICE_MEMORY="512M")


def test_only_memory_of_the_process_is_registered(library: Path) -> None:
    run(
        library,
        """
        memory = mmap.mmap(-1, 8192)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for start, size in ((8, 4), (address, 2**62), (address, 2**64 - 1), (2**64 - 8, 16)):
            assert lib.orHostRegister(start, size) == Error.INVALID_VALUE
            assert driver.detail() == (
                f"orHostRegister: of {size} bytes at {start:#x} not all are memory of this process"
            )
        driver.check(lib.orHostRegister(address + 100, 5000))
        driver.check(lib.orHostUnregister(address + 100))
        """,
    )


@pytest.mark.parametrize("library", ["ON"], indirect=True)
def test_callbacks_of_a_host_kernel_are_inside_it(library: Path) -> None:
    run(
        library,
        """
        out, stream, seen = ctypes.c_void_p(), driver.stream_create(), {}
        destroyed = threading.Event()
        def run(*_):
            seen["run"] = lib.orDeviceGetDefaultStream(ctypes.byref(out), 0)
            return 0
        def keep(closure):
            seen["keep"] = lib.orMalloc(ctypes.byref(ctypes.c_void_p()), 64)
            return closure
        def destroy(closure):
            seen["destroy"] = lib.orStreamQuery(stream)
            destroyed.set()
        callbacks = driver.RUN(run), driver.DESTROY(destroy), driver.KEEP(keep)
        kernel = driver.HostKernel(b"callbacks", callbacks[0], callbacks[1], 7, 2 << 20, callbacks[2])
        driver.check(lib.orLaunchHostKernel(ctypes.byref(kernel), stream))
        assert destroyed.wait(10)  # although this thread calls nothing of the driver
        assert seen == {"keep": Error.NOT_SUPPORTED, "run": Error.SUCCESS, "destroy": Error.NOT_SUPPORTED}
        driver.synchronize(stream)
        """,
    )


@pytest.mark.parametrize("library", ["ON"], indirect=True)
def test_a_device_that_waits_for_failed_work_fails_as_well(library: Path) -> None:
    if run(library, "print(driver.device_count())") == "1\n":
        pytest.skip("the platform has one device")
    run(
        library,
        """
        here, event = driver.stream_create(), driver.event_create(driver.EVENT_DISABLE_TIMING)
        driver.set_device(1)
        there = driver.stream_create()
        driver.set_device(0)

        # Work that has ended before its device fails is no reason to fail.
        driver.sleep(0.05, here)
        driver.check(lib.orEventRecord(event, here))
        driver.sleep(0.3, there)
        driver.check(lib.orStreamWaitEvent(there, event))
        driver.check(lib.orEventSynchronize(event))
        driver.launch(b"fails", lambda: "on purpose", here)
        driver.synchronize(there)
        driver.check(lib.orDeviceReset())

        here, event = driver.stream_create(), driver.event_create(driver.EVENT_DISABLE_TIMING)
        driver.sleep(0.1, here)
        driver.launch(b"fails", lambda: "on purpose", here)
        driver.check(lib.orEventRecord(event, here))
        driver.check(lib.orStreamWaitEvent(there, event))
        assert lib.orStreamSynchronize(there) == Error.LAUNCH_FAILURE
        assert driver.detail() == (
            "orStreamSynchronize: a stream of openreg:1 waited for work of openreg:0, which has failed"
        )
        driver.set_device(1)
        driver.check(lib.orDeviceReset())
        there = driver.stream_create()
        assert lib.orStreamWaitEvent(there, event) == Error.LAUNCH_FAILURE  # the event has passed by now
        """,
    )
