from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from prerequisites import compiler_command
from torch import _C

from tests.offers import LAST_DEVICE
from torch_openreg import openreg
from torch_openreg._C import _get_default_generator

pytestmark = pytest.mark.usefixtures("first_device")
Probe = Callable[..., str]
RunProcess = Callable[..., subprocess.CompletedProcess[str]]
COUNT = torch.accelerator.device_count()
LAST = COUNT - 1
OUT_OF_RANGE = (
    rf"^openreg: device index {COUNT} was asked for, but the valid indices are 0 to {LAST} "
    r"\(OPENREG_DEVICE_COUNT sets the number of devices\)$"
)


@pytest.fixture(scope="module")
def probe_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("hooks") / "hooks_probe.so"
    torch_folder = Path(torch.__file__).parent
    subprocess.run(
        [
            *(*compiler_command(), "-std=c++20", "-shared", "-fPIC"),
            *("-isystem", torch_folder / "include", Path(__file__).with_name("hooks_probe.cpp"), "-o", library),
            *("-L", torch_folder / "lib", "-ltorch_cpu", "-lc10"),
        ],
        check=True,
    )
    return library


@pytest.fixture(scope="module")
def probe(probe_library: Path) -> Probe:
    function = ctypes.CDLL(str(probe_library)).probe
    function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64]
    function.restype = ctypes.c_char_p
    return lambda owner, name, argument=0: function(owner.encode(), name.encode(), argument).decode()


# Hooks that ordinary Python reaches.


def test_init_is_called_by_the_first_hook_that_needs_the_device(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        assert torch.accelerator.memory_stats() == {}  # empty as long as no device has been used
        torch.ones(1).pin_memory()
        assert torch.accelerator.memory_stats()
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_backward_asks_has_primary_context_of_each_device(probe: Probe) -> None:
    x = torch.ones(3, device=LAST_DEVICE, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0] * 3
    assert [probe("registered", "hasPrimaryContext", index) for index in (-1, 0, LAST, COUNT)] == [
        "false",
        "true",
        "true",
        "false",
    ]


def test_default_generators_belong_to_their_device_and_are_one_each() -> None:
    generators = [_get_default_generator(index) for index in range(COUNT)]
    assert [str(generator.device) for generator in generators] == [f"openreg:{index}" for index in range(COUNT)]
    assert _get_default_generator(0) is generators[0]
    with openreg.device(LAST):
        assert _get_default_generator(-1) is generators[LAST]


@pytest.mark.needs("two devices")
def test_default_generators_start_from_different_seeds(run_process: RunProcess) -> None:
    done = run_process(
        """
        import torch
        from torch_openreg._C import _get_default_generator
        assert _get_default_generator(0).initial_seed() != _get_default_generator(1).initial_seed()
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_new_generator_has_the_default_seed_and_its_own_state() -> None:
    openreg.manual_seed(1)
    generator = torch.Generator(LAST_DEVICE)
    assert generator.device == torch.device(LAST_DEVICE)
    assert generator.initial_seed() == 67280421310721  # c10::default_rng_seed_val, as on every device of PyTorch
    generator.manual_seed(2)
    assert openreg.initial_seed() == 1
    with openreg.device(LAST):
        assert torch.Generator("openreg").device == torch.device(LAST_DEVICE)


def test_pinned_memory() -> None:
    plain = torch.arange(4.0)
    pinned = plain.pin_memory()
    assert (plain.is_pinned(), pinned.is_pinned(), pinned[1:].is_pinned()) == (False, True, True)
    assert pinned.device.type == "cpu"
    assert pinned.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert torch.empty(2, pin_memory=True).is_pinned()


def test_nothing_is_pinned_before_the_first_use(run_process: RunProcess) -> None:
    done = run_process("import torch; print(torch.ones(1).is_pinned())")
    assert done.stdout == "False\n", done.stderr


def test_resizing_a_storage_keeps_what_fits_and_its_device() -> None:
    storage = torch.arange(4, dtype=torch.int32, device=LAST_DEVICE).untyped_storage()
    storage.resize_(24)
    grown = torch.empty(0, dtype=torch.int32, device=LAST_DEVICE).set_(storage)
    assert storage.nbytes() == 24
    assert grown.device == torch.device(LAST_DEVICE)
    assert grown[:4].tolist() == [0, 1, 2, 3]
    storage.resize_(8)
    assert torch.empty(0, dtype=torch.int32, device=LAST_DEVICE).set_(storage).tolist() == [0, 1]
    storage.resize_(0)
    assert storage.nbytes() == 0


# Hooks that only PyTorch's private functions reach.


def test_the_current_device_through_the_private_functions() -> None:
    assert _C._accelerator_hooks_device_count() == COUNT
    _C._accelerator_hooks_set_current_device(LAST)
    assert _C._accelerator_hooks_get_current_device() == LAST == openreg.current_device()
    assert _C._accelerator_hooks_exchange_device(0) == LAST
    assert _C._accelerator_hooks_maybe_exchange_device(LAST) == 0
    assert _C._accelerator_hooks_exchange_device(-1) == LAST  # no device requested: the current one stays
    assert _C._accelerator_hooks_get_current_device() == LAST


@pytest.mark.parametrize(
    "use",
    [
        lambda: _C._accelerator_hooks_set_current_device(COUNT),
        lambda: _C._accelerator_hooks_exchange_device(COUNT),
        lambda: _C._accelerator_hooks_maybe_exchange_device(COUNT),
        lambda: _get_default_generator(COUNT),
        lambda: torch.Generator(f"openreg:{COUNT}"),
    ],
)
def test_an_index_out_of_range_names_the_valid_ones(use: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match=OUT_OF_RANGE):
        use()
    assert openreg.current_device() == 0


# Hooks that only C++ reaches.


def test_from_blob_finds_the_device_of_a_pointer(probe: Probe) -> None:
    x, y = torch.ones(4, device="openreg:0"), torch.ones(4, device=LAST_DEVICE)
    assert probe("registered", "from_blob", x.data_ptr()) == "openreg:0"
    assert probe("registered", "from_blob", y.data_ptr() + 8) == LAST_DEVICE


def test_memory_of_the_host_has_no_device(probe: Probe) -> None:
    for host in (torch.ones(4), torch.ones(4).pin_memory()):
        assert probe("registered", "from_blob", host.data_ptr()) == (
            f"Error: openreg: {host.data_ptr():#x} is not memory of a device of openreg: pass the device to from_blob"
        )


def test_availability(probe: Probe) -> None:
    assert probe("registered", "isBuilt") == "true"
    assert probe("registered", "isAvailable") == "true"


def test_asking_for_availability_uses_no_device(run_process: RunProcess, probe_library: Path) -> None:
    done = run_process(
        f"""
        import ctypes, torch
        function = ctypes.CDLL({str(probe_library)!r}).probe
        function.restype = ctypes.c_char_p
        probe = lambda name: function(b"registered", name, ctypes.c_int64(0)).decode()
        print(probe(b"isBuilt"), probe(b"isAvailable"), probe(b"deviceCount"), probe(b"hasPrimaryContext"))
        print(probe(b"init"), probe(b"hasPrimaryContext"), torch.openreg.is_available())
        """
    )
    assert done.stdout == f"true true {COUNT} false\ndone true True\n", done.stderr


def test_without_a_device_is_available_is_false_and_does_not_throw(probe_library: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import ctypes, sys, torch; function = ctypes.CDLL(sys.argv[1]).probe; function.restype = ctypes.c_char_p\n"
            "for name in (b'isAvailable', b'deviceCount', b'hasPrimaryContext', b'init'):\n"
            "    print(function(b'registered', name, ctypes.c_int64(0)).decode())",
            str(probe_library),
        ],
        env=os.environ | {"OPENREG_DEVICE_COUNT": "many"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("false\n0\nfalse\nError: orErrorInitialization: ")
    assert done.stderr.count("openreg reports no device") == 1


def test_the_registered_hooks_answer_like_the_python_entries(probe: Probe) -> None:
    openreg.set_device(LAST)
    x, pinned = torch.ones(2, device="openreg:0"), torch.ones(2).pin_memory()
    answers = {
        ("init", 0): "done",
        ("getDefaultGenerator", 0): "openreg:0",
        ("getDefaultGenerator", -1): LAST_DEVICE,
        ("getNewGenerator", -1): LAST_DEVICE,
        ("getDeviceFromPtr", x.data_ptr()): "openreg:0",
        ("getPinnedMemoryAllocator", 0): "cpu",
        ("isPinnedPtr", pinned.data_ptr()): "true",
        ("isPinnedPtr", x.data_ptr()): "false",
        ("isPinnedPtr", 0): "false",
        ("deviceCount", 0): str(COUNT),
        ("getCurrentDevice", 0): str(LAST),
        ("exchangeDevice", 0): str(LAST),
        ("maybeExchangeDevice", LAST): "0",
        ("setCurrentDevice", 0): "done",
    }
    assert {key: probe("registered", *key) for key in answers} == answers


def test_hooks_are_registered_once(probe: Probe) -> None:
    assert probe("registered", "register") == "Error: PrivateUse1HooksInterface only could be registered once."


# The defaults of hooks that a backend leaves out.

NOT_IMPLEMENTED = (
    "NotImplementedError: You should register `PrivateUse1HooksInterface`by `RegisterPrivateUse1HooksInterface` and "
    "implement `{}` at the same time for PrivateUse1."
)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("init", "done"),
        ("isPinnedPtr", "false"),
        ("deviceCount", "0"),
        *(
            (name, NOT_IMPLEMENTED.format(name))
            for name in (
                "hasPrimaryContext",
                "getDefaultGenerator",
                "getNewGenerator",
                "getDeviceFromPtr",
                "getPinnedMemoryAllocator",
                "isBuilt",
                "isAvailable",
                "resizePrivateUse1Bytes",
            )
        ),
        *(
            (name, f"Error: Backend doesn't support {name}()")
            for name in ("getCurrentDevice", "setCurrentDevice", "exchangeDevice", "maybeExchangeDevice")
        ),
    ],
)
def test_a_hook_that_is_left_out(probe: Probe, name: str, answer: str) -> None:
    assert probe("bare", name) == answer
