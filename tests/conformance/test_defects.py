"""Each defect is found by exactly the checks that concern it, and named."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.conformance.kit import run_kit, start_kit, wait_until

FAILED, CRASHED, HUNG = "failed", "crashed", "hung"
DRAWS = ("rand", "randn", "randint", "bernoulli", "randperm", "multinomial")

# A module of `broken`, the options of the run, the expected findings, and what the terminal says about them.
DEFECTS: dict[str, tuple[list[str], dict[str, tuple[str, str]], list[str]]] = {
    "no_pinned_hook": (
        ["--area=hooks,memory", "-k=pin"],
        {"hooks/pinned_memory_is_known": (FAILED, "hooks"), "memory/data_loader_pins": (FAILED, "host_memory")},
        ["memory that was just pinned says that it is not: is isPinnedPtr overridden?"],
    ),
    "guard_ignores_index": (
        ["--area=guard"],
        {
            f"guard/{name}": (FAILED, "guard")
            for name in (
                "factories_obey_the_index",
                "factories_without_an_index_follow_the_current_device",
                "operators_run_where_their_tensors_are",
                "copies_between_devices",
                "device_is_left_after_an_error",
                "each_thread_has_its_own_device",
            )
        },
        ["the current device is 1 and should be 0: is an index ignored, or a guard not left?"],
    ),
    "event_never_completes": (
        ["--area=events"],
        {
            f"events/{name}": (FAILED, "event")
            for name in (
                "synchronized_event_is_done",
                "event_is_done_by_itself",
                "event_can_be_recorded_again",
                "elapsed_time",
                "event_of_another_device",
            )
        },
        ["the event has been synchronized, and query() still says that it is pending"],
    ),
    "wrong_stride": (
        ["--area=tensors"],
        {f"tensors/empty_strided[{strides}]": (FAILED, "operators") for strides in ("(1, 3)", "(8, 2)")},
        ["empty_strided(1, 3) has strides (4, 1)"],
    ),
    "lost_gradients": (
        ["--area=autograd"],
        {"autograd/gradient_of[logcumsumexp]": (FAILED, "autograd")},
        ["logcumsumexp: the result requires no gradient: the operator was called below autograd"],
    ),
    "forgets_arguments": (
        ["--area=operators", "-k=as_on_the_cpu and forward-float32 and (embedding-f or functional.batch_norm-f)"],
        {
            f"operators/as_on_the_cpu[nn.functional.{name}-forward-float32]": (FAILED, "operators")
            for name in ("embedding", "batch_norm")
        },
        ["an argument is changed in another way than on the CPU"],
    ),
    "wrong_seed": (
        ["--area=random"],
        {f"random/seed_repeats[{draw}]": (FAILED, "random") for draw in DRAWS},
        ["torch.manual_seed does not seed the device", "and 3 more of random/seed_repeats, which are in the report"],
    ),
    "hooks_of_their_own": (
        ["--area=hooks"],
        {f"hooks/{name}": (FAILED, "hooks") for name in ("device_count", "current_device_of_the_hooks")},
        ["the hooks count 0 devices: is deviceCount overridden?", "exchangeDevice gives the device before"],
    ),
    "careless_memory": (
        ["--area=memory"],
        {
            "memory/accumulated_statistics_are_reset": (FAILED, "memory"),
            "memory/lazy_clone_is_copied_when_written": (FAILED, "memory"),
            "memory/empty_host_cache_leaves_what_is_in_use": (FAILED, "host_memory"),
        },
        [
            "reset_accumulated_memory_stats left what was allocated before",
            "what was written to a lazy clone is seen in its source",
            "no such cache",
        ],
    ),
    "streams_do_not_wait": (
        ["--area=streams,events"],
        {
            "streams/wait_stream_orders": (FAILED, "stream"),
            "streams/no_capture_goes_on": (FAILED, "stream"),
            "events/wait_event_orders": (FAILED, "event"),
            "events/future_waits_on_the_stream": (FAILED, "event"),
            "events/callback_of_a_future_has_a_stream": (FAILED, "stream"),
            "events/destroyed_event_leaves_its_waiters": (FAILED, "event"),
        },
        ["a stream did not wait for what a Future was given", "a stream says that it is being captured into a graph"],
    ),
    "generator_of_the_cpu": (
        ["--area=random"],
        {f"random/{name}": (FAILED, "random") for name in ("generator_is_cloned", "generator_has_an_offset")},
        ["the clone of a generator of openreg:0 is on cpu", "the offset is not obeyed"],
    ),
    "no_is_initialized": (
        ["--area=module"],
        {
            "module/may_have[is_initialized]": ("not offered", "frontend"),
            "module/fake_tensors": (FAILED, "frontend"),
        },
        ["has no attribute 'is_initialized'"],
    ),
    "lost_memory": (
        ["--area=memory", "-k=freed_memory"],
        {"memory/freed_memory_comes_back": (FAILED, "memory")},
        ["bytes are in use"],
    ),
    "wrong_values_after_a_fork": (
        ["--area=device", "-k=forked_process_is_refused"],
        {"device/forked_process_is_refused_once_the_device_is_in_use": (FAILED, "autoload")},
        ["three ones are 0.0 in a forked process"],
    ),
    "refused_dtypes": (
        ["--area=tensors", "-k=round_trip"],
        {
            "tensors/round_trip_of_other_dtypes[torch.float64]": ("not offered", "copies"),
            "tensors/round_trip_of_other_dtypes[torch.complex64]": ("not offered", "copies"),
            "tensors/round_trip_of_other_dtypes[torch.int16]": (FAILED, "copies"),
        },
        ["RuntimeError: the device is lost", "this device has no Double", "this device has no torch.complex64"],
    ),
    "other_generators": (
        ["--area=random", "-k=default_generators"],
        {"random/default_generators_of_the_module": (FAILED, "random")},
        ["operators use another one"],
    ),
    "not_overridden": (
        ["--area=tensors,events", "-k=operators_return or done_by_itself"],
        {
            "tensors/operators_return_tensors_of_the_device": (FAILED, "fallback"),
            "events/event_is_done_by_itself": ("not offered", "event"),
        },
        ["Backend doesn't support logcumsumexp", "Backend doesn't support events"],
    ),
    "no_autocast": (
        ["--area=amp", "-k=is_available"],
        {"amp/is_available": ("not offered", "amp")},
        ["no get_amp_supported_dtype, which torch.autocast asks for"],
    ),
    "no_higher_order": (
        ["--area=amp", "-k=take_functions"],
        {f"amp/operators_that_take_functions[torch.{dtype}]": (FAILED, "amp") for dtype in ("bfloat16", "float16")},
        ["at dispatch key DispatchKey.AutocastPrivateUse1", "a list of keys that they let through"],
    ),
    "says_nothing": (
        ["--area=device", "-k=name_is_registered or is_the_accelerator", "--timeout=2"],
        {"device/name_is_registered": (HUNG, "registration"), "device/is_the_accelerator": (HUNG, "hooks")},
        ["no start within 2 s; it was in wait (threading.py"],
    ),
    "three_kernels": (
        ["--area=autograd", "-k=gradient_of", "--timeout=15"],
        {
            "autograd/gradient_of[amax]": (CRASHED, "autograd"),
            "autograd/gradient_of[gelu]": (HUNG, "autograd"),
            "autograd/gradient_of[cumsum]": (FAILED, "autograd"),
        },
        [
            "killed by SIGSEGV in string_at",
            "no end within 15 s; it was in wait (threading.py",
            "AcceleratorError: orErrorLaunchFailure",
        ],
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_defect_is_found_and_named(defect: str, tmp_path: Path) -> None:
    options, expected, said = DEFECTS[defect]
    guide = "--guide=https://guide.example/a/"
    ran = run_kit(tmp_path / "report", f"--setup=tests.conformance.broken.{defect}", guide, *options)
    assert ran.found() == expected, ran.output
    assert ran.status == (1 if any(outcome != "not offered" for outcome, _ in expected.values()) else 0)
    for words in said:
        assert words in ran.output
    for chapter in {chapter for outcome, chapter in expected.values() if outcome != "not offered"}:
        assert f"cure    chapter '{chapter}' of the guide: https://guide.example/a/{chapter}.html" in ran.output


def test_operators_in_a_dtype_that_is_refused_by_name_are_not_offered(tmp_path: Path) -> None:
    options = ["--area=operators", "--level=complete", "-k=[abs-forward-float64] or [abs-forward-complex64]"]
    ran = run_kit(tmp_path / "report", "--setup=tests.conformance.broken.refused_dtypes", *options)
    assert ran.found() == {
        f"operators/as_on_the_cpu[abs-forward-{dtype}]": ("not offered", "operators")
        for dtype in ("complex64", "float64")
    }, ran.output


def test_a_device_that_is_unusable_from_the_start_does_not_cost_a_worker_for_each_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STARTS", str(tmp_path / "starts"))
    options = ["--area=amp", "-k=dtype_of"]
    ran = run_kit(tmp_path / "report", "--setup=tests.conformance.broken.no_fill", *options)
    assert [outcome for outcome, _ in ran.found().values()] == [FAILED] * 16, ran.output
    assert len((tmp_path / "starts").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_no_process_is_left_when_the_kit_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    hanging = tmp_path / "hanging"
    setup = "--setup=tests.conformance.broken.hangs_in_another_process"
    options = [setup, "--area=device", "-k=process_ends", "--report", str(tmp_path / "report")]
    with start_kit(tmp_path, "--device", "openreg", *options, HANGING=str(hanging)) as kit:
        wait_until(lambda: hanging.is_file() and hanging.read_text(encoding="utf-8").endswith("\n"))
        kit.send_signal(number)
    process = Path("/proc", hanging.read_text(encoding="utf-8").strip(), "stat")
    wait_until(lambda: not process.exists() or ") Z " in process.read_text(encoding="utf-8"))  # a zombie has ended


def test_a_backend_that_ends_the_process_at_import_is_told(tmp_path: Path) -> None:
    ran = run_kit(tmp_path / "report", "--setup=tests.conformance.broken.no_import", "--area=device")
    assert ran.status == 1
    assert "a worker ended before its first check" in ran.output
    assert "no_import.py" in ran.report["fault"]
    assert "The backend cannot be asked" in (ran.folder / "report.html").read_text(encoding="utf-8")
