"""The device module, `torch.acme`: what PyTorch looks up on it by name, and the methods named after the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from accelerator_conformance.checks import chapter, level, not_offered

pytestmark = chapter("frontend")

# Each name, and what looks it up.
REQUIRED = {
    "is_available": "torch.load, and PyTorch's test framework",
    "device_count": "torch.load, torch.random.fork_rng, PyTorch's test framework",
    "current_device": "torch.load, and PyTorch's test framework",
    "set_device": "distributed training",
    "device": "torch.load, and checkpoints",
    "synchronize": "distributed training, and profilers",
    "manual_seed": "users",
    "manual_seed_all": "torch.manual_seed",
    "get_rng_state": "torch.random.fork_rng, and checkpoints",
    "set_rng_state": "torch.random.fork_rng, and checkpoints",
    "_is_in_bad_fork": "torch.manual_seed",
    "_initialized": "checkpoints, to learn whether there is a state of random numbers to keep",
    "get_amp_supported_dtype": "torch.autocast",
}
OPTIONAL = {
    "Stream": "distributed training",
    "Event": "distributed training, and profilers",
    "current_stream": "distributed training",
    "default_stream": "users",
    "stream": "distributed training",
    "set_stream": "users",
    "default_generators": "torch.compile",
    "initial_seed": "users",
    "is_initialized": "torch.compile, and distributed training",
    "init": "users",
    "memory_allocated": "users",
    "memory_reserved": "users",
    "max_memory_allocated": "users",
    "memory_stats": "users",
    "empty_cache": "users",
    "mem_get_info": "users",
    "get_device_name": "users",
    "get_device_properties": "distributed training, and Inductor",
    "is_bf16_supported": "users",
    "get_device_capability": "users",
    "reset_peak_memory_stats": "users",
    "memory_summary": "users",
    "seed": "users",
    "seed_all": "users",
    "_lazy_init": "the first use of the device",
    "_get_generator": "torch.compile",
    "_sleep": "PyTorch's test framework",
}


@pytest.mark.parametrize("name", REQUIRED)
def test_has(name: str, module: Any) -> None:
    """The module has a name that PyTorch looks up."""
    assert hasattr(module, name), f"{module.__name__} has no {name}, which is looked up by {REQUIRED[name]}"


@level("usable")
@pytest.mark.parametrize("name", OPTIONAL)
def test_may_have(name: str, module: Any) -> None:
    """The module has a name that other accelerators have, and that programs expect."""
    if not hasattr(module, name):
        not_offered(f"{module.__name__} has no {name}, which is looked up by {OPTIONAL[name]}")
    assert getattr(module, name) is not None


@chapter("registration")
def test_is_torch_device(device: str, module: Any) -> None:
    """`torch.acme` is the module, and torch.get_device_module returns it."""
    assert getattr(torch, device) is module
    assert torch.get_device_module(f"{device}:0") is module


def test_an_unknown_name_is_an_attribute_error(module: Any) -> None:
    """An unknown name raises AttributeError, since PyTorch probes with hasattr."""
    assert not hasattr(module, "no_such_name")
    with pytest.raises(AttributeError):
        _ = module.no_such_name


def test_is_not_in_a_bad_fork(module: Any) -> None:
    """A process that was not forked is not in a bad fork."""
    assert module._is_in_bad_fork() is False


def test_initialized_follows_the_first_use(device: str, module: Any) -> None:
    """After a tensor is created, `_initialized` is true."""
    torch.ones(1, device=device)
    assert bool(module._initialized), "_initialized is false after the first use: checkpoints keep no random numbers"


@chapter("registration")
def test_methods_of_tensors(device: str) -> None:
    """generate_methods_for_privateuse1_backend gave tensors, modules and storages their methods."""
    x: Any = torch.arange(3.0)
    assert not getattr(x, f"is_{device}"), "a tensor of the CPU says that it is on the device"
    moved = getattr(x, device)()
    assert getattr(moved, f"is_{device}"), "a tensor of the device says that it is not"
    assert moved.device.type == device
    assert moved.tolist() == [0, 1, 2]
    linear: Any = torch.nn.Linear(2, 2)
    assert next(getattr(linear, device)().parameters()).device.type == device


@level("usable")
@chapter("registration")
def test_methods_of_packed_sequences(device: str) -> None:
    """A packed sequence has the method named after the device."""
    packed: Any = torch.nn.utils.rnn.pack_sequence([torch.ones(3, 2), torch.ones(1, 2)])
    if not hasattr(packed, device):
        not_offered(f"PackedSequence has no method {device}; call generate_methods_for_privateuse1_backend")
    assert getattr(packed, device)().data.device.type == device


@level("usable")
def test_default_device(device: str) -> None:
    """torch.set_default_device and `with torch.device` make tensors on the device."""
    with torch.device(device):
        assert torch.ones(2).device.type == device
        assert torch.nn.Linear(2, 2).weight.device.type == device
    assert torch.ones(2).device.type == "cpu"


@level("usable")
def test_fake_tensors(device: str, other: torch.device) -> None:
    """Under FakeTensorMode, as in torch.compile, tensors have their device and no kernel runs."""
    real = torch.ones(3, 2, device=other)
    with FakeTensorMode() as mode:
        fake, made = mode.from_tensor(real), torch.ones(2, 4, device=device)
        assert made.device == torch.device(device, 0)
        assert (fake @ made.to(other)).device == other
        assert (fake @ made.to(other)).shape == (3, 4)
    assert real.tolist() == [[1, 1]] * 3


@level("usable")
def test_properties_have_a_name_and_a_size(module: Any) -> None:
    """get_device_properties returns the device's name and memory size."""
    if not hasattr(module, "get_device_properties"):
        not_offered(f"{module.__name__} has no get_device_properties")
    properties = module.get_device_properties(0)
    assert properties.name
    assert properties.total_memory > 0
