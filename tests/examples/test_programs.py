"""Examples in surroundings that their pages do not have: with the race detector, optimized, with another compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import RunProcess

ROOT = Path(__file__).resolve().parents[2]


def ran(*command: str, **environment: str) -> str:
    """Runs Python with that command line in the repository's root, and returns the output of a success."""
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "last"),
    [
        ("interop_library.py", "released with the refused capsule: True"),
        ("copies_kernels.py staged", "behind the work of its stream [1.0]"),
        ("host_memory_failures.py", "child: 7 [0.0, 1.0, 2.0, 3.0]"),
    ],
)
def test_examples_with_several_streams_have_no_race(command: str, last: str) -> None:
    name, *arguments = command.split()
    assert ran(f"examples/{name}", *arguments, OPENREG_RACES="1").splitlines()[-1] == last


@pytest.mark.long
@pytest.mark.parametrize("name", ["debugging_line.py", "graph_reset.py"])
def test_examples_do_the_same_without_assertions(name: str) -> None:
    assert ran("-O", f"examples/{name}") == ran(f"examples/{name}") != ""


@pytest.mark.long
def test_the_compiler_may_have_a_launcher() -> None:
    compiler = os.environ.get("CXX") or "c++"
    code = (
        "import sys, build_headers; print(build_headers.files_read(sys.argv[1], build_headers.Path(sys.argv[2])) > 5)"
    )
    header = ("c10/core/Allocator.h", str(Path(torch.__file__).parent / "include"))
    assert ran("-c", code, *header, CXX=f"env {compiler}", PYTHONPATH="examples") == "True\n"
    assert "refused" in ran("examples/errors_dropped_code.py", CXX=f"env {compiler}")


@pytest.mark.long
def test_the_library_of_another_vendor_refuses_what_it_cannot_do(run_process: RunProcess) -> None:
    done = run_process(
        """
        import sys
        sys.path.insert(0, "examples")
        import torch
        from interop_library import library

        vendor = library()
        x = torch.ones(2, 3, device="openreg")
        for refused in (lambda: vendor.fill_bytes(x.t(), 0), lambda: vendor.fill_bytes(x[:, 1], 0),
                        lambda: vendor.Array(1, byte=0, device=0).__dlpack__(max_version=(0, 8))):
            try:
                refused()
            except BufferError as error:
                print(error, x.sum().item())
        for view in (x[:0], x[:, :0], x[1:], x[:1, 1:2]):
            vendor.fill_bytes(view, 0)
        print(x.tolist())
        """
    )
    assert done.stdout.splitlines() == [
        "this library writes to contiguous tensors only 6.0",
        "this library writes to contiguous tensors only 6.0",
        "this library exports DLPack 1.0 only 6.0",
        "[[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]",
    ], done.stderr


def test_an_error_ends_the_other_process_too(run_process: RunProcess) -> None:
    done = run_process(
        """
        import sys
        sys.path.insert(0, "examples")
        from interop_processes import other_process, scale
        with other_process(scale):
            raise LookupError("an error of this process")
        """,
        status=1,
    )
    assert done.stderr.endswith("LookupError: an error of this process\n")
    assert "EOFError" in done.stderr  # the other process has noticed


@pytest.mark.long
def test_a_crash_after_the_last_unit_is_blamed_on_none() -> None:
    code = """if True:
        import atexit, os, runpy, sys
        atexit.register(os.abort)
        sys.argv[1:] = ["abs"]
        runpy.run_path("examples/opinfo_isolated.py", run_name="__main__")
        """
    assert ran("-c", code, PYTHONPATH="examples") == "ready\npassed\n"


def test_a_call_that_ends_while_it_is_watched(run_process: RunProcess) -> None:
    done = run_process(
        """
        import sys, threading, types
        sys.path.insert(0, "examples")
        import driver_kernels
        others = lambda: [each for each in threading.enumerate() if each is not threading.main_thread()]
        driver_kernels.time = types.SimpleNamespace(sleep=lambda seconds: [thread.join() for thread in others()])
        gate = driver_kernels.hold()
        threading.Timer(0.2, gate.set).start()
        driver_kernels.begin("orDeviceSynchronize")()
        """
    )
    assert done.stdout == "orSuccess\n", done.stderr


def test_the_peer_keeps_the_path_of_its_program(run_process: RunProcess) -> None:
    done = run_process(
        """
        from examples.driver_sharing import Peer
        peer = Peer("examples/driver_sharing.py")
        print(peer("os.environ['PYTHONPATH'].partition(os.pathsep)[2]"))
        peer.close()
        """,
        PYTHONPATH="/anywhere",
    )
    assert done.stdout == "/anywhere\n", done.stderr


def test_a_rank_that_raises_without_a_text_is_reported(run_process: RunProcess) -> None:
    done = run_process(
        """
        from examples.distributed_ranks import on_ranks
        def fails():
            raise ValueError
        print(on_ranks(fails))
        """
    )
    assert done.stdout == "['ValueError: ', 'ValueError: ']\n", done.stderr
