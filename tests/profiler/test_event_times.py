"""Device times of operators, measured by events: torch.autograd.profiler.profile(use_device=...)."""

from __future__ import annotations

import subprocess
import textwrap
import threading
from os import environ
from pathlib import Path

import pytest
import torch
from prerequisites import compiler_command
from torch.autograd.profiler import profile, record_function

from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE, library


def device_times(profiled: profile) -> dict[str, float]:
    """Microseconds by name of operator or range."""
    return {event.key: event.device_time_total for event in profiled.key_averages()}


@pytest.mark.needs("queue", "host kernels")
def test_a_range_takes_as_long_as_the_device_worked() -> None:
    start, end = (torch.Event("openreg", enable_timing=True) for _ in range(2))
    with profile(use_device="openreg") as profiled:
        start.record()
        with record_function("nap"):
            torch.openreg._sleep(30_000_000)
        x = torch.rand(64, 64, device="openreg") @ torch.rand(64, 64, device="openreg")
        end.record()
    times = device_times(profiled)
    assert 30_000 <= times["nap"] <= start.elapsed_time(end) * 1000
    assert 0 < times["aten::mm"] <= times["aten::matmul"] <= start.elapsed_time(end) * 1000 - times["nap"]
    assert x.isfinite().all()


def test_no_time_is_negative_or_no_number() -> None:
    x = torch.rand(8, device="openreg")
    with profile(use_device="openreg") as profiled:
        x.view(2, 4)
        x + 1
    table = profiled.key_averages().table()
    assert "NaN" not in table
    assert all(time >= 0 for time in device_times(profiled).values())


def test_forward_backward_and_several_threads() -> None:
    def work(device: str) -> None:
        layer = torch.nn.Linear(4, 4).to(device)
        layer(torch.ones(2, 4, device=device)).sum().backward()

    with profile(use_device="openreg") as profiled:
        thread = threading.Thread(target=work, args=(LAST_DEVICE,))
        thread.start()
        work("openreg:0")
        thread.join()
    times = device_times(profiled)
    assert times["aten::linear"] > 0
    assert any("Backward" in name and time > 0 for name, time in times.items())


@pytest.mark.needs("two devices")
def test_an_operator_on_two_devices_is_no_error() -> None:
    x, y = torch.rand(4, device="openreg:0"), torch.rand(4, device="openreg:1")
    with profile(use_device="openreg") as profiled:
        y.copy_(x)
    assert device_times(profiled)["aten::copy_"] >= 0
    assert torch.equal(x.cpu(), y.cpu())


def test_a_driver_whose_events_have_no_times_leads_to_a_warning(tmp_path: Path, run_process: RunProcess) -> None:
    source, refusing = tmp_path / "refusing.cpp", tmp_path / "refusing.so"
    source.write_text(f"""
        #include <dlfcn.h>
        extern "C" int orEventCreateWithFlags(void** event, unsigned flags) {{
          using Function = int (*)(void**, unsigned);
          void* const driver = dlopen("{library()._name}", RTLD_LAZY | RTLD_NOLOAD);
          const auto real = reinterpret_cast<Function>(dlsym(driver, "orEventCreateWithFlags"));
          return flags == 0 ? 15 : real(event, flags);  // orErrorNotSupported
        }}
        """)
    compiler = compiler_command()
    subprocess.run([*compiler, "-shared", "-fPIC", source, "-o", refusing, "-ldl"], check=True)
    code = """
        import torch
        from torch.autograd.profiler import profile
        x = torch.ones(4, device="openreg")
        with profile(use_device="openreg") as profiled:
            print((x + 1 + 1).tolist())
        print({event.device_time_total for event in profiled.key_averages()})
        """
    result = run_process(
        'import warnings; warnings.simplefilter("default")\n' + textwrap.dedent(code),
        LD_PRELOAD=":".join(filter(None, (environ.get("LD_PRELOAD"), str(refusing)))),
        KINETO_LOG_LEVEL="99",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "[3.0, 3.0, 3.0, 3.0]\n{0}\n", result.stderr
    assert result.stderr.count("openreg: this driver's events have no times, so the profile has none") == 1
    assert "INTERNAL ASSERT" not in result.stderr
