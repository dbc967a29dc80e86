"""The classes that are registered with Lightning. Importing this file imports Lightning, which takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from lightning.fabric import strategies as fabric_strategies
from lightning.fabric.accelerators import ACCELERATOR_REGISTRY
from lightning.fabric.plugins.precision import MixedPrecision as FabricMixedPrecision
from lightning.fabric.strategies import STRATEGY_REGISTRY
from lightning.pytorch import strategies as trainer_strategies
from lightning.pytorch.accelerators import Accelerator, AcceleratorRegistry
from lightning.pytorch.plugins.precision import MixedPrecision
from lightning.pytorch.strategies import StrategyRegistry

from torch_openreg import openreg
from torch_openreg.integrations import _library


# LITERALINCLUDE START: lightning-accelerator
class DeviceAccelerator(Accelerator):
    """Devices for Lightning: how many there are, and which ones `devices=` means."""

    @staticmethod
    def name() -> str:
        """What a program passes as `accelerator=`."""
        return "openreg"

    @staticmethod
    def is_available() -> bool:
        """Whether there is a device."""
        return openreg.device_count() > 0

    @staticmethod
    def auto_device_count() -> int:
        """How many devices `devices="auto"` means."""
        return openreg.device_count()

    @staticmethod
    def parse_devices(devices: int | str | list[int]) -> list[int]:
        """The indices of the devices: a number of devices, -1 for all, a list of indices, or either as text.

        Raises:
            ValueError: if `devices` is none of these, or names a device that does not exist.
        """
        chosen: Any = devices
        if isinstance(chosen, str):
            try:
                numbers = [int(number) for number in chosen.split(",") if number.strip()]
            except ValueError:
                numbers = []
            chosen = numbers[0] if numbers and "," not in chosen else numbers
        if isinstance(chosen, int):
            chosen = list(range(openreg.device_count() if chosen == -1 else chosen))
        if not chosen or len(set(chosen)) < len(chosen):
            raise ValueError(
                f"openreg: devices={devices!r} names no device, or one of them twice: pass a number of devices, "
                "a list of indices, or -1 for all"
            )
        return [_library.device(index).index for index in chosen]

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        """One device for each process."""
        return [torch.device("openreg", index) for index in devices]

    def setup_device(self, device: torch.device) -> None:
        """Makes the device of this process the current one.

        Raises:
            ValueError: if the strategy has chosen another kind of device. Lightning's default strategy does: it would
                train on the CPU.
        """
        if device.type != "openreg":
            raise ValueError(
                f"openreg: the strategy trains on {device}, not on the accelerator: pass strategy='openreg' for one "
                "device, or strategy='openreg_ddp' for one in each process"
            )
        openreg.set_device(device)

    def teardown(self) -> None:
        """Returns cached memory."""
        openreg.empty_cache()

    def get_device_stats(self, device: torch.device | str | int) -> dict[str, Any]:
        """The statistics of the allocator, in bytes and counts, for `DeviceStatsMonitor`."""
        return dict(torch.accelerator.memory_stats(device))


# LITERALINCLUDE END: lightning-accelerator


# LITERALINCLUDE START: lightning-precision
def _for_device(precision: Any) -> Any:
    """The plugin of `precision="bf16-mixed"` or "16-mixed", with autocast for the device.

    Lightning creates it for the CPU, for MPS, and for CUDA in all other cases: on the device, it would do nothing. A
    plugin that a program has created itself is left alone, unless it is for CUDA.
    """
    for plugin in (MixedPrecision, FabricMixedPrecision):
        if type(precision) is plugin and precision.device == "cuda":
            return plugin(precision.precision, "openreg")
    return precision


class _TrainerPrecision:
    """The property of the Trainer's strategies through which Lightning sets the plugin."""

    @property
    def precision_plugin(self) -> Any:
        return super().precision_plugin  # type: ignore[misc]

    @precision_plugin.setter
    def precision_plugin(self, precision: Any) -> None:
        self._precision_plugin = _for_device(precision)


class _FabricPrecision:
    """The same of Fabric's strategies, where it has another name."""

    @property
    def precision(self) -> Any:
        return super().precision  # type: ignore[misc]

    @precision.setter
    def precision(self, precision: Any) -> None:
        self._precision = _for_device(precision)


# LITERALINCLUDE END: lightning-precision


# LITERALINCLUDE START: lightning-strategies
class _OneDevice:
    """The property by which Lightning tells a strategy which devices `devices=` means."""

    _root_device: torch.device

    @property
    def parallel_devices(self) -> list[torch.device]:
        return []  # none yet: Lightning then sets them

    @parallel_devices.setter
    def parallel_devices(self, devices: list[torch.device]) -> None:
        if len(devices) != 1:
            raise ValueError(
                f"openreg: the strategy 'openreg' trains on one device, got {len(devices)}: pass devices=1, or "
                "strategy='openreg_ddp'"
            )
        self._root_device = devices[0]


class TrainerStrategy(_OneDevice, _TrainerPrecision, trainer_strategies.SingleDeviceStrategy):
    """The Trainer on one device."""


class FabricStrategy(_OneDevice, _FabricPrecision, fabric_strategies.SingleDeviceStrategy):
    """Fabric on one device."""


class _Processes:
    """Several processes, each with a device: which process group they have."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"process_group_backend": "cpu:gloo,openreg:staged", **options})

    def determine_ddp_device_ids(self) -> None:
        """No indices: with them, Lightning would wrap the model on a stream of CUDA."""

    _determine_ddp_device_ids = determine_ddp_device_ids  # the name that Fabric has for it


class TrainerDDPStrategy(_Processes, _TrainerPrecision, trainer_strategies.DDPStrategy):
    """The Trainer with several processes, each with a device."""


class FabricDDPStrategy(_Processes, _FabricPrecision, fabric_strategies.DDPStrategy):
    """Fabric with several processes, each with a device."""


def entries() -> Iterator[tuple[Any, str, type]]:
    """The registries of Lightning, each with a name and what it means."""
    yield AcceleratorRegistry, "openreg", DeviceAccelerator
    yield ACCELERATOR_REGISTRY, "openreg", DeviceAccelerator
    yield StrategyRegistry, "openreg", TrainerStrategy
    yield STRATEGY_REGISTRY, "openreg", FabricStrategy
    yield StrategyRegistry, "openreg_ddp", TrainerDDPStrategy
    yield STRATEGY_REGISTRY, "openreg_ddp", FabricDDPStrategy


# LITERALINCLUDE END: lightning-strategies
