from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn.parallel.data_parallel import _check_balance
from torch.utils.backend_registration import _get_custom_mod_func

from tests import offers
from tests.conftest import RunProcess
from tests.offers import DEVICES, LAST_DEVICE
from torch_openreg.openreg._absent import ABSENT

pytestmark = pytest.mark.usefixtures("first_device")
LAST = torch.device(LAST_DEVICE).index
index = torch.openreg._utils._get_device_index


def test_properties_are_the_drivers() -> None:
    said = ctypes.create_string_buffer(4096)  # orDeviceProp, which begins with two names
    assert offers.library().orGetDeviceProperties(said, LAST) == 0
    names = [said.raw[at : at + 64].partition(b"\0")[0].decode() for at in (0, 64)]
    properties = torch.openreg.get_device_properties(LAST)
    assert [properties.name, properties.driver] == names
    assert all(names)


@pytest.mark.needs("simulator")
def test_properties_of_the_simulated_device(run_process: RunProcess) -> None:
    properties = torch.openreg.get_device_properties(LAST)
    assert (properties.name, properties.major, properties.minor) == ("openreg simulated accelerator", 1, 0)
    assert properties.multi_processor_count == 1
    code = "import torch; print(torch.openreg.get_device_properties().total_memory)"
    assert run_process(code, OPENREG_DEVICE_MEMORY="96M").stdout == f"{96 << 20}\n"


def test_properties_cannot_change_and_can_be_sent() -> None:
    properties = torch.openreg.get_device_properties()
    with pytest.raises(AttributeError, match="cannot assign to field 'name'"):
        properties.name = "other"
    assert pickle.loads(pickle.dumps(properties)) == properties


def test_name_and_capability_of_any_spelling() -> None:
    properties = torch.openreg.get_device_properties(0)
    for device in (None, LAST, "openreg", LAST_DEVICE, torch.device("openreg:0")):
        assert torch.openreg.get_device_name(device) == properties.name
        assert torch.openreg.get_device_capability(device) == (properties.major, properties.minor)


def test_balanced_devices_cause_no_warning() -> None:
    _check_balance(range(len(DEVICES)))


def test_bf16_is_computed_in_another_dtype() -> None:
    assert torch.openreg.is_bf16_supported() is True
    assert torch.openreg.is_bf16_supported(including_emulation=False) is False


@pytest.mark.parametrize("use", [torch.openreg.get_device_properties, torch.openreg._exchange_device])
def test_an_index_out_of_range_names_the_valid_ones(use: Callable[[int], object]) -> None:
    with pytest.raises(RuntimeError, match=f"device index 9 was asked for, but the valid indices are 0 to {LAST}"):
        use(9)
    assert torch.openreg.current_device() == 0


def test_device_index_of_every_spelling() -> None:
    torch.openreg.set_device(LAST)
    assert [index(device) for device in (0, "openreg:0", torch.device("openreg:0"))] == [0, 0, 0]
    assert [index(device, optional=True) for device in (None, "openreg", torch.device("openreg"))] == [LAST] * 3
    assert index("cpu", allow_cpu=True) == -1


@pytest.mark.parametrize("device", [None, "openreg", torch.device("openreg")])
def test_a_device_without_an_index_is_refused_unless_optional(device: torch.device | str | None) -> None:
    with pytest.raises(ValueError, match=rf"a device of openreg with an index is needed, got '{device}'"):
        index(device)


@pytest.mark.parametrize(("device", "allow_cpu"), [("cpu", False), ("meta", False), ("meta", True)])
def test_a_device_of_another_type_is_refused(device: str, allow_cpu: bool) -> None:
    with pytest.raises(ValueError, match=f"a device of openreg is needed, got '{device}'"):
        index(device, optional=True, allow_cpu=allow_cpu)


def test_load_without_an_index_takes_the_current_device(tmp_path: Path) -> None:
    torch.save(torch.arange(3), tmp_path / "x.pt")
    torch.openreg.set_device(LAST)
    loaded = torch.load(tmp_path / "x.pt", map_location="openreg")
    assert loaded.device == torch.device(LAST_DEVICE)
    assert loaded.tolist() == [0, 1, 2]


def test_device_of_follows_tensors_and_storages() -> None:
    x = torch.ones(2, device=LAST_DEVICE)
    for followed, expected in ((x, LAST), (x.untyped_storage(), LAST), (torch.ones(2), 0)):
        with torch.openreg.device_of(followed):
            assert torch.openreg.current_device() == expected
        assert torch.openreg.current_device() == 0


@pytest.mark.parametrize("exchange", [torch.openreg._exchange_device, torch.openreg._maybe_exchange_device])
def test_exchange_returns_the_device_before(exchange: Callable[[int], int]) -> None:
    assert (exchange(LAST), torch.openreg.current_device()) == (0, LAST)
    assert (exchange(-1), torch.openreg.current_device()) == (-1, LAST)
    assert (exchange(0), torch.openreg.current_device()) == (LAST, 0)


@pytest.mark.needs("queue", "two devices")
def test_sleep_keeps_the_current_device_busy_and_no_other() -> None:
    with torch.openreg.device(1):
        torch.openreg._sleep(200_000_000)
        assert not torch.accelerator.current_stream(1).query()
        assert torch.accelerator.current_stream(0).query()
    torch.openreg.synchronize(1)
    assert torch.accelerator.current_stream(1).query()


def test_a_negative_sleep_is_refused() -> None:
    torch.openreg._sleep(0)
    with pytest.raises(RuntimeError, match="openreg: _sleep takes a number of cycles from 0 on, got -1"):
        torch.openreg._sleep(-1)


@pytest.mark.parametrize(
    "call",
    ["get_device_properties()", "_utils._get_device_index('openreg', True)", "_exchange_device(0)", "_sleep(0)"],
)
def test_the_first_call_starts_the_device(call: str, run_process: RunProcess) -> None:
    done = run_process(f"import torch; torch.openreg.{call}; print(torch.openreg.is_initialized())")
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("name", sorted(ABSENT))
def test_a_missing_name_is_missing_and_says_why(name: str) -> None:
    assert not hasattr(torch.openreg, name)
    with pytest.raises(AttributeError, match=f"module 'torch.openreg' has no attribute '{name}': ") as caught:
        getattr(torch.openreg, name)
    assert str(caught.value).endswith(ABSENT[name])
    with pytest.raises(RuntimeError, match=f"Try to call torch.openreg.{name}"):
        _get_custom_mod_func(name)


def test_an_unknown_name_is_missing_without_a_reason() -> None:
    with pytest.raises(AttributeError, match=r"^module 'torch\.openreg' has no attribute 'nothing'$"):
        _ = torch.openreg.nothing


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_inductor_registers_what_the_module_names() -> None:
    from torch._inductor.codegen.common import get_scheduling_for_device, init_backend_registration

    init_backend_registration()
    assert get_scheduling_for_device("openreg") is torch.openreg.Scheduling
