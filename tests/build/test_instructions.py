"""`make instructions` counts the same each time, and names a call that has grown."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import instructions
import pytest
from driver import default, installed
from environment import ROOT, Fault
from instructions import accepted, callgrind, parts
from instructions.accepted import INSTRUCTIONS, Accepted
from instructions.callgrind import CPU, DEVICE, Profile, Profiles
from prerequisites import compiler_command, installed_torch, is_reference_torch

ABS = "abs(16)"
needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason="valgrind is not installed (apt-get install valgrind)"
)
# Two functions in two libraries. `outer` calls `inner` twice, which counts 40 instructions.
OUTPUT = """\
# callgrind format
version: 1
thread: 1
positions: line
events: Ir
summary: 70

ob=/lib/one.so
fl=???
fn=outer(int)
0 10
fi=header.h
+3 20
cob=/lib/two.so
cfi=???
cfn=inner()
calls=2 0
0 40

ob=/lib/two.so
fl=???
fn=inner()
7 40
cfn=inner()'2
calls=1 0
7 15

totals: 70
"""


def profiles(device: Mapping[str, float], cpu: Mapping[str, float], calls: Mapping[str, float]) -> Profiles:
    return {ABS: {CPU: Profile(dict(cpu)), DEVICE: Profile(dict(device), dict(calls))}}


def before(count: float, locks: float) -> Accepted:
    counted = accepted.counts(profiles({"a:f": count}, {"a:f": 100}, {"libc.so.6:pthread_mutex_lock": locks}))
    return Accepted({"compiler": "gcc 1"}, counted)


def compared(earlier: Accepted, now: Accepted) -> list[str]:
    return list(instructions.compare(earlier, now.counts))


def test_a_file_of_callgrind_is_read() -> None:
    own, calls, inclusive = callgrind.read(OUTPUT.splitlines(keepends=True))
    assert own == {"one.so:outer(int)": 30, "two.so:inner()": 40}
    assert calls == {"two.so:inner()": 2, "two.so:inner()'2": 1}
    assert inclusive == {"two.so:inner()": 40, "two.so:inner()'2": 15}


def test_what_a_loop_costs_once_cancels_out() -> None:
    shorter, longer = (
        callgrind.read(["fn=f\n", "1 530\n", "fn=once\n", "2 7\n"]),
        callgrind.read(["fn=f\n", "1 1530\n", "fn=once\n", "2 7\n"]),
    )
    assert callgrind.difference(shorter[0], longer[0], 100) == {":f": 10}


def test_each_instruction_belongs_to_one_part() -> None:
    own = {
        "libc.so.6:pthread_mutex_lock@@GLIBC_2.2.5": 1.0,
        "libc.so.6:_int_free": 2.0,
        "libopenreg.so:orLaunchHostKernel": 3.0,
        "libopenreg.so:orGetHostAlias": 4.0,
        "libtorch_cpu.so:at::_ops::abs::call(at::Tensor const&)": 5.0,
        "libtorch_cpu.so:torch::autograd::Engine::execute()": 6.0,
        "libtorch_cpu.so:mkl_blas_avx2_sgemm_kernel_nocopy_NN_b0": 7.0,
        "libtorch_openreg.so:openreg::BlockPool::free(void*, orError*)": 8.0,
        "libsomething.so:else": 9.0,
    }
    split = {name: count for name, count in parts.split(own).items() if count}
    assert split == {
        "locks": 1.0,
        "memory of the host": 2.0,
        "launches": 3.0,
        "address checks": 4.0,
        "dispatcher": 5.0,
        "autograd": 6.0,
        "arithmetic of kernels": 7.0,
        "memory of tensors": 8.0,
        parts.REST: 9.0,
    }
    assert sum(split.values()) == sum(own.values())


def test_equal_counts_and_small_changes_pass(capsys: pytest.CaptureFixture[str]) -> None:
    for count in (7000, 7200, 6800):
        assert compared(before(7000, 3), before(count, 3)) == []
    assert capsys.readouterr().out == ""


def test_a_call_that_has_grown_is_named() -> None:
    assert compared(before(7000, 3), before(7350, 3)) == [
        "abs(16) on the device: 7350 instructions, 5.0% more than the accepted 7000"
    ]
    # 50 instructions are less than 3 %, but a lock is a lock.
    assert compared(before(7000, 3), before(7050, 4)) == [
        "abs(16) on the device: 4 locks, 33.3% more than the accepted 3"
    ]
    assert compared(before(7000, 0), before(7050, 1)) == ["abs(16) on the device: 1 locks, more than the accepted 0"]
    assert compared(before(7000, 3), before(7000, 3.02)) == []  # one in fifty calls


def test_a_call_that_needs_less_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(before(7000, 3), before(6300, 3)) == []
    assert capsys.readouterr().out == (
        "-- abs(16) on the device: 6300 instructions, 10.0% fewer than the accepted 7000: `make instructions "
        "ARGS=--accept` accepts them, so that none of the gain is lost again\n"
    )


def test_another_list_of_calls_is_no_comparison() -> None:
    other = Accepted({}, {"view": {CPU: {INSTRUCTIONS: 1}}})
    (fault,) = compared(Accepted({}, {}), other)
    assert fault == "counted or accepted, but not both: instructions of view on the CPU"


@needs_valgrind
def test_the_command_fails_with_the_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "accepted.json"
    Accepted(accepted.conditions(), before(7000, 3).counts).write(file)
    monkeypatch.setattr(accepted, "FILE", file)
    grown = profiles({"a:f": 7700}, {"a:f": 100}, {"libc.so.6:pthread_mutex_lock": 3})
    monkeypatch.setattr(callgrind, "compile_program", lambda program: None)
    monkeypatch.setattr(callgrind, "count", lambda program: grown)
    with pytest.raises(Fault, match=re.escape("10.0% more than the accepted 7000")) as raised:
        instructions.main([])
    assert str(raised.value).endswith("accept the new counts: make instructions ARGS=--accept")


@needs_valgrind
def test_counts_of_another_compiler_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = accepted.conditions()
    assert accepted.incomparable(here) is None
    for name in here:
        file = tmp_path / "accepted.json"
        Accepted({**here, name: "another"}, {}).write(file)
        monkeypatch.setattr(accepted, "FILE", file)
        instructions.main([])
        reason = f"the counts were accepted with another {name}: another, and here is {here[name]}"
        assert capsys.readouterr().out == f"make instructions is left out: {reason}\n"


def test_without_valgrind_it_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    needed = "it needs valgrind (apt-get install valgrind)"
    assert accepted.incomparable({}) == needed
    instructions.main([])
    assert capsys.readouterr().out == f"make instructions is left out: {needed}\n"
    for asked in (["--accept"], ["--tables"], ["--functions", ABS]):
        with pytest.raises(Fault, match=f"^make instructions: nothing was counted: {re.escape(needed)}$"):
            instructions.main(asked)


def test_the_functions_of_a_call_that_is_not_there_are_refused_before_the_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(callgrind, "compile_program")
    with pytest.raises(Fault, match=r"^make instructions: there is no call 'nosuch' .*; there are empty\(16\), view, "):
        instructions.main(["--functions", "nosuch"])


@needs_valgrind
def test_tables_compare_nothing_and_are_shown_of_another_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "accepted.json"
    Accepted({"compiler": "another"}, {}).write(file)
    monkeypatch.setattr(accepted, "FILE", file)
    monkeypatch.setattr(callgrind, "compile_program", lambda program: None)
    monkeypatch.setattr(callgrind, "count", lambda program: profiles({"a:f": 7}, {"a:f": 5}, {}))
    instructions.main(["--functions", ABS])
    *table, last = capsys.readouterr().out.splitlines()
    assert table[0].startswith(f"| part | function, in {ABS} on the device | more |")
    assert last.startswith("make instructions: nothing was compared: the counts were accepted with another compiler")


def extra_lock(folder: Path, *options: str) -> dict[str, str]:
    """Compiles a library that stands before the driver; returns the variable that loads it."""
    library = folder / "extra_lock.so"
    compiler = [*compiler_command(), "-std=c++20", "-O2", "-fPIC", "-shared", *options]
    source = ROOT / "tests" / "build" / "_extra_lock.cpp"
    subprocess.run([*compiler, f"-I{ROOT / 'csrc' / 'driver'}", str(source), "-o", str(library)], check=True)
    return {"LD_PRELOAD": str(library)}


@needs_valgrind
@pytest.mark.skipif(installed() != default(), reason="only the default driver launches host kernels")
@pytest.mark.skipif(not is_reference_torch(str(installed_torch())), reason="the names are those of the reference")
@pytest.mark.long
def test_an_additional_lock_in_a_launch_is_found(tmp_path: Path) -> None:
    program = tmp_path / "program"
    callgrind.compile_program(program)
    first, again = (callgrind.count(program, [ABS], extra_lock(tmp_path)) for _ in range(2))
    locked = callgrind.count(program, [ABS], extra_lock(tmp_path, "-DEXTRA_LOCK"))
    for device in (CPU, DEVICE):
        assert again[ABS][device].total == pytest.approx(first[ABS][device].total, rel=0.005)
    earlier = Accepted({}, accepted.counts(first))
    assert list(instructions.compare(earlier, accepted.counts(again))) == []
    found = list(instructions.compare(earlier, accepted.counts(locked)))
    assert len(found) == 1
    assert re.match(r"abs\(16\) on the device: \d+ locks, .*more than the accepted \d+$", found[0])
    assert locked[ABS][DEVICE].total > first[ABS][DEVICE].total + 20
