"""A rank that ends, a rank that does not come, and the end of a process group."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.distributed import failures
from tests.distributed.ranks import RankFailed, ranks

ROOT = Path(__file__).resolve().parents[2]


# A barrier and a receive move nothing of the victim's that its death could cut off: they have no "during".
KILLS = [
    *((name, "staged", "before") for name in sorted(failures.OPERATIONS)),
    *((name, "staged", "during") for name in failures.DIRECT),
    *((name, "direct", when) for name in failures.DIRECT for when in ("before", "during")),
]


@pytest.mark.parametrize(("operation", "collectives", "when"), KILLS)
def test_a_killed_rank_ends_the_operations_of_the_others(operation: str, collectives: str, when: str) -> None:
    with ranks(2, OPENREG_COLLECTIVES=collectives) as group:
        group.start(failures.die, operation, 1, when == "during")
        start = time.monotonic()
        survivor, victim = group.outcomes()
        assert time.monotonic() - start < 10
        assert isinstance(survivor, RankFailed)
        assert survivor.kind == "DistBackendError"
        assert f"{operation} number" in survivor.message
        assert "of rank 0 failed" in survivor.message
        assert isinstance(victim, RankFailed)
        assert victim.message == "exit code -9"


@pytest.mark.parametrize("collectives", ["direct", "staged"])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_any_of_three_ranks_can_die(victim: int, collectives: str) -> None:
    # Those that the victim's end reaches leave the group, so that none waits for the timeout.
    with ranks(3, OPENREG_COLLECTIVES=collectives) as group:
        start = time.monotonic()
        group.start(failures.die, "all_reduce", victim, True)
        for rank, outcome in enumerate(group.outcomes()):
            assert isinstance(outcome, RankFailed)
            assert outcome.kind == ("ended" if rank == victim else "DistBackendError")
        assert time.monotonic() - start < 10


def test_a_rank_that_does_not_end_in_order_fails_its_test() -> None:
    with pytest.raises(AssertionError, match="rank 1 ended with exit code 5"), ranks(2) as group:
        group(failures.ends_badly)


def test_a_rank_that_does_not_come() -> None:
    with ranks(2, seconds=2) as group:
        late, _ = group(failures.late)
        assert late.startswith("all_reduce number 1 of rank 0 failed: ")
        assert "Timed out waiting 2000ms" in late


def test_the_work_of_a_batch_that_has_failed_has_its_exception() -> None:
    with ranks(2, seconds=2) as group:
        (is_completed, is_success, exception), _ = group(failures.batch_without_the_other)
        assert (is_completed, is_success) == (True, False)
        assert "Timed out waiting 2000ms" in exception


@pytest.mark.long
def test_a_group_is_created_by_a_later_attempt() -> None:
    """The number of attempts differs between the ranks, and each attempt must look where the others do."""
    with ranks(2) as group:
        assert group(failures.late_once) == [(2, 2.0), (1, 2.0)]


@pytest.mark.parametrize("numel", [3, 1_000_000], ids=["staged", "direct"])
@pytest.mark.parametrize("of_group", [True, False], ids=["of the group", "of the operation"])
def test_a_timeout_after_the_groups_creation(numel: int, of_group: bool) -> None:
    with ranks(2) as group:
        (message, seconds), _ = group(failures.timed_out, numel, of_group)
        assert "Timed out waiting 1000ms" in message
        assert seconds < 10


def test_a_failure_is_told_before_other_operations_end() -> None:
    with ranks(3, seconds=20) as group:
        group.start(failures.lost_with_another_under_way)
        outcome = group.outcomes()[0]
        assert not isinstance(outcome, RankFailed), outcome
        message, seconds = outcome
        assert message.startswith("broadcast number 2 of rank 0 failed: ")
        assert seconds < 3


def test_the_end_of_a_group_does_not_wait_for_what_it_would_receive() -> None:
    with ranks(2, seconds=20) as group:
        assert all(seconds < 10 for seconds in group(failures.receives_nothing))


def test_a_group_that_has_failed_says_why() -> None:
    with ranks(2, seconds=2) as group:
        message = group(failures.after_a_failure)[0]
        assert message.startswith(
            "all_reduce number 2 of rank 0 failed: an earlier operation of the process group has "
        )
        assert "Timed out" in message


def test_a_wait_with_a_time_limit() -> None:
    with ranks(2) as group:
        assert group(failures.impatient)[0] == (
            "all_reduce number 1 of rank 0: not complete after 200 ms; it continues, and can be waited for again"
        )


def test_abort_ends_what_is_pending() -> None:
    with ranks(2) as group:
        assert group(failures.aborted)[0] == "recv number 1 of rank 0 failed: the process group was aborted"


@pytest.mark.needs("graphs")
@pytest.mark.parametrize("numel", [3, 1_000_000], ids=["staged", "direct"])
def test_a_collective_in_a_capture_is_refused_and_nothing_is_lost(numel: int) -> None:
    text = "cannot be captured in a graph, since the host takes part in it: end the capture before it"
    with ranks(2) as group:
        for messages in group(failures.captured, numel):
            for name, message in zip(("all_reduce", "barrier", "all_reduce"), messages, strict=True):
                assert message.startswith(f"openreg: {name} {text}")


def test_a_callback_does_not_destroy_its_own_group() -> None:
    text = "openreg: a callback of an operation cannot shut down or destroy its own process group"
    with ranks(2) as group:
        assert all(message.startswith(text) for message in group(failures.destroyed_by_a_callback))


def test_the_end_of_a_group_waits_for_what_callbacks_start() -> None:
    with ranks(2) as group:
        assert group(failures.ended_by_destroy) == [[2.0] * 5] * 2


def test_a_rank_that_ends_in_a_callback() -> None:
    with ranks(3) as group:
        group.start(failures.killed_in_a_callback)
        for rank in (0, 2):
            (outcome,) = group.outcomes([rank])
            assert not isinstance(outcome, RankFailed), outcome
            (of_callback, of_program), seconds = outcome
            assert f"of rank {rank} failed: " in of_callback
            assert f"of rank {rank} failed: an earlier operation of the process group has failed" in of_program
            assert seconds < 10


def test_the_last_reference_is_dropped_with_an_operation_pending() -> None:
    with ranks(2) as group:
        group(failures.last_reference)


@pytest.mark.needs("faults")
@pytest.mark.parametrize("numel", [3, 1_000_000], ids=["staged", "direct"])
def test_a_failed_device_fails_the_collective_on_all_ranks(numel: int) -> None:
    with ranks(2, seconds=5, OPENREG_LAUNCH="async") as group:
        on_failed, on_other = group(failures.failed_device, numel)
        assert all("orErrorLaunchFailure: a kernel failed" in message for message in on_failed)
        for number, message in enumerate(on_other, start=2):
            assert message.startswith(f"all_reduce number {number} of rank 1 failed: ")


@pytest.mark.parametrize("ending", ["", "dist.destroy_process_group()", "raise SystemExit(3)"])
def test_the_end_of_a_process(ending: str, tmp_path: Path) -> None:
    """A process ends in order, whether or not the group was destroyed."""
    code = textwrap.dedent(f"""
        import torch, torch.distributed as dist
        dist.init_process_group(init_method="file://{tmp_path}/store", rank=0, world_size=1)
        x = torch.ones(3, device="openreg")
        dist.all_reduce(x)
        assert x.tolist() == [1, 1, 1]
        {ending}
    """)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == (3 if "SystemExit" in ending else 0), done.stderr
    assert "terminate" not in done.stderr


def test_the_end_of_a_process_with_a_pending_collective(tmp_path: Path) -> None:
    """It does not wait for the other rank, even if the program destroys the group after the backend has ended."""
    code = textwrap.dedent(f"""
        import atexit, sys
        atexit.register(lambda: dist.destroy_process_group())
        import torch, torch.distributed as dist
        rank = int(sys.argv[1])
        dist.init_process_group("staged", init_method="file://{tmp_path}/store", rank=rank, world_size=2)
        works = [dist.all_reduce(torch.ones(3, device="openreg"), async_op=True) for _ in range(3 * (1 - rank))]
        if rank == 1:
            sys.stdin.read()
    """)
    command = [sys.executable, "-c", code]
    streams = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([*command, str(rank)], cwd=ROOT, **streams) for rank in range(2)]
    for process in both:  # rank 1 is asked to end when rank 0 has ended
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert "terminate" not in errors


@pytest.mark.parametrize("is_used", [True, False], ids=["used", "unused"])
@pytest.mark.parametrize(
    "last", ["pass", "use()", "dist.destroy_process_group()", "dist.distributed_c10d._world.pg_map.clear()"]
)
def test_a_forked_child_ends_and_leaves_the_group_alone(is_used: bool, last: str, tmp_path: Path) -> None:
    code = textwrap.dedent(f"""
        import os, sys, torch, torch.distributed as dist
        rank = int(sys.argv[1])
        dist.init_process_group("staged", init_method="file://{tmp_path}/store", rank=rank, world_size=2)

        def use():
            x = torch.ones(3, device="openreg")
            dist.all_reduce(x)
            return x.tolist()

        if {is_used}:
            use()
        if (child := os.fork()) == 0:
            try:
                {last}
            except RuntimeError as error:
                print(str(error).splitlines()[0])
            sys.exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
        assert use() == [2.0] * 3
        dist.destroy_process_group()
    """)
    with contextlib.ExitStack() as stack:
        started = []
        for rank in range(2):
            command = [sys.executable, "-c", code, str(rank)]
            process = stack.enter_context(
                subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            started.append(process)
        for process in started:
            out, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
            if last == "use()":
                refusal = "Cannot re-initialize openreg" if is_used else "forked from one of the group"
                assert refusal in out


@pytest.mark.parametrize("backend", ["", "'staged'", "'cpu:gloo,openreg:staged'"])
def test_torchrun(backend: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import torch, torch.distributed as dist
        dist.init_process_group({backend})
        x = torch.ones(3, device="openreg") * (1 + dist.get_rank())
        dist.all_reduce(x)
        assert x.tolist() == [3, 3, 3], x
        for group in (dist.group.WORLD, dist.new_group()):
            assert group.name() == "custom", group.name()
            torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).to("openreg"), process_group=group)
        dist.destroy_process_group()
        """)
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "No backend of type" not in done.stderr
