"""Integrations: when they change a library, how they are undone, and what they refuse."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.conftest import RunProcess
from tests.libraries.catalog import installed
from tests.libraries.programs import forget
from torch_openreg.integrations import _library, _random_states, accelerate, lightning, safetensors, transformers

MODULES = {"accelerate": accelerate, "lightning": lightning, "safetensors": safetensors, "transformers": transformers}
REPLACING = [name for name in MODULES if name != "lightning"]
LAST = torch.openreg.device_count() - 1


@pytest.fixture(autouse=True)
def unregistered() -> Any:
    """Every test begins and ends without an integration."""
    forget()
    yield
    forget()
    for name, module in MODULES.items():
        if installed(name):
            module.unregister()


def needs(*libraries: str) -> None:
    """Skips a test one of whose libraries is missing."""
    for library in libraries:
        if not installed(library):
            pytest.skip(f"{library} is not installed: an extra of pyproject.toml has it")


def replaced(module: ModuleType) -> list[Any]:
    """What the replaced functions of an integration are now."""
    replacements = getattr(module, "_REPLACEMENTS", None) or [module.__dict__["_OPEN"]]
    return [vars(each._found_owner())[each._name] for each in replacements]


def test_importing_the_backend_imports_no_library_and_no_integration(run_process: RunProcess) -> None:
    ran = run_process("""
        import sys, torch
        torch.ones(1, device="openreg")
        names = {name.partition(".")[0] for name in sys.modules}
        print(sorted(names & {"accelerate", "transformers", "safetensors", "lightning", "peft"}))
        print([name for name in sys.modules if name.startswith("torch_openreg.integrations")])
    """)
    assert ran.stdout.split("\n")[:2] == ["[]", "[]"], ran.stderr


@pytest.mark.parametrize("name", REPLACING)
def test_importing_an_integration_changes_nothing(name: str, run_process: RunProcess) -> None:
    needs(name)
    ran = run_process(f"import sys, torch_openreg.integrations.{name}; print('{name}' in sys.modules)")
    assert ran.stdout == "False\n", ran.stderr


@pytest.mark.parametrize("name", REPLACING)
def test_registering_twice_adds_no_layer_and_unregistering_restores(name: str) -> None:
    needs(name)
    module = MODULES[name]
    before = replaced(module)
    module.register()
    once = replaced(module)
    module.register()
    assert all(new is not old for new, old in zip(once, before, strict=True))
    assert all(new is old for new, old in zip(replaced(module), once, strict=True))
    module.unregister()
    module.unregister()
    assert all(new is old for new, old in zip(replaced(module), before, strict=True))


@pytest.mark.parametrize("earlier", [None, "cpu", "openreg:0"])
def test_a_choice_of_the_user_is_restored(monkeypatch: pytest.MonkeyPatch, earlier: str | None) -> None:
    needs("accelerate")
    name, module = "ACCELERATE_TORCH_DEVICE", MODULES["accelerate"]
    monkeypatch.delenv(name, raising=False) if earlier is None else monkeypatch.setenv(name, earlier)
    module.unregister()
    assert os.environ.get(name) == earlier
    module.register(LAST)
    module.register(0)
    assert os.environ[name] == "openreg:0"
    module.unregister()
    assert os.environ.get(name) == earlier


def test_a_name_that_other_modules_hold_is_replaced_and_restored() -> None:
    needs("accelerate")
    import accelerate.utils
    import accelerate.utils.modeling

    original = accelerate.utils.get_max_memory
    accelerate_module = MODULES["accelerate"]
    accelerate_module.register()
    assert accelerate.utils.get_max_memory is accelerate.utils.modeling.get_max_memory is not original
    assert set(range(LAST + 1)) < set(accelerate.utils.get_max_memory())
    accelerate_module.unregister()
    assert accelerate.utils.get_max_memory is accelerate.utils.modeling.get_max_memory is original


def test_where_there_is_no_device_none_is_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library.openreg, "device_count", lambda: 0)
    with pytest.raises(ValueError, match=r"^openreg: there is no device 1: this process has no device at all$"):
        _library.device(1)


@pytest.mark.parametrize("index", [-1, LAST + 1])
def test_a_device_that_does_not_exist_is_refused(index: int) -> None:
    needs("accelerate")
    message = f"openreg: there is no device {index}: pass an index from 0 to {LAST}"
    with pytest.raises(ValueError, match=message):
        accelerate.register(index)
    accelerate.register()
    from accelerate.utils import get_max_memory

    with pytest.raises(ValueError, match=message):
        get_max_memory({index: 100})


def test_limits_of_memory_are_those_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    needs("accelerate")
    accelerate.register()
    from accelerate.utils import get_max_memory

    limits = get_max_memory({"cpu": 100, LAST: "1KB", 0: 7})
    assert limits == {0: 1000 if LAST == 0 else 7, LAST: 1000, "cpu": 100}
    assert list(limits)[-1] == "cpu"
    assert "is not available" not in caplog.text


def test_registering_after_accelerate_has_chosen_is_refused() -> None:
    needs("accelerate")
    from accelerate import Accelerator

    Accelerator()
    with pytest.raises(
        RuntimeError, match="openreg: accelerate has chosen cpu for this process, and keeps it: call reg"
    ):
        accelerate.register()
    assert "ACCELERATE_TORCH_DEVICE" not in os.environ


def test_the_index_chooses_the_device() -> None:
    needs("accelerate")
    from accelerate import Accelerator

    accelerate.register(LAST)
    assert Accelerator().device == torch.device("openreg", LAST)


def test_the_cpu_can_be_chosen_while_registered() -> None:
    needs("accelerate")
    from accelerate import Accelerator

    accelerate.register()
    accelerator = Accelerator(cpu=True, mixed_precision="fp16")
    assert accelerator.device == torch.device("cpu")
    assert accelerator.scaler is None


def test_float16_scales_gradients_on_the_device_and_keeps_the_precision() -> None:
    needs("accelerate")
    from accelerate import Accelerator

    accelerate.register()
    for _ in range(2):  # the second one finds the state of the first
        accelerator = Accelerator(mixed_precision="fp16")
        assert accelerator.mixed_precision == "fp16"
        assert accelerator.scaler.is_enabled()
        with accelerator.autocast():
            assert (torch.ones(2, 2, device="openreg") @ torch.ones(2, 2, device="openreg")).dtype == torch.float16
    with pytest.raises(ValueError, match="already been initialized"):
        Accelerator(mixed_precision="bf16")
    assert Accelerator().mixed_precision == "fp16"


def test_float16_on_the_cpu_is_left_to_accelerate() -> None:
    needs("accelerate")
    from accelerate import Accelerator

    accelerate.register()
    accelerate.unregister()
    assert Accelerator(mixed_precision="fp16").scaler is None


def same(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    """Whether two runs have the same losses and parameters, bit for bit."""
    return first[0] == second[0] and all(torch.equal(value, second[1][name]) for name, value in first[1].items())


class TestRandomStates:
    """The random numbers of the devices in a checkpoint."""

    # The first is in the middle of the second pass over the data, the second at its end.
    @pytest.mark.parametrize("step", [5, 8])
    def test_a_trainer_continues_with_the_same_masks(self, step: int, tmp_path: Path) -> None:
        needs("accelerate", "transformers")
        from tests.libraries.transformers_programs import with_dropout

        accelerate.register()
        transformers.register()
        straight, checkpoint = with_dropout(str(tmp_path), step), str(tmp_path / f"checkpoint-{step}")
        assert same(with_dropout(str(tmp_path / "more"), step, checkpoint), straight)
        transformers.unregister()  # as the library is, a Trainer that is resumed draws other masks
        losses, _ = with_dropout(str(tmp_path / "other"), step, checkpoint)
        assert losses[:step] == straight[0][:step]
        assert losses[step:] != straight[0][step:]

    def test_an_accelerator_continues_with_the_same_masks(self, tmp_path: Path) -> None:
        needs("accelerate")
        from tests.libraries.accelerate_programs import with_dropout

        accelerate.register()
        straight = with_dropout(str(tmp_path), checkpoint=False)
        assert same(with_dropout(str(tmp_path), checkpoint=True), straight)

    @pytest.mark.skipif(LAST == 0, reason="needs two devices")
    def test_the_device_of_the_training_may_have_another_index(self, tmp_path: Path) -> None:
        needs("accelerate")
        from tests.libraries.accelerate_programs import with_dropout

        accelerate.register(LAST)
        straight = with_dropout(str(tmp_path), checkpoint=False)
        forget()
        accelerate.register(0)
        assert same(with_dropout(str(tmp_path), checkpoint=True), straight)

    def test_the_states_of_all_devices_are_restored(self, tmp_path: Path) -> None:
        torch.manual_seed(0)
        _random_states.save(tmp_path, 3, torch.device("openreg", LAST))
        expected = [torch.rand(3, device=torch.device("openreg", index)).tolist() for index in range(LAST + 1)]
        _random_states.load(tmp_path, 3, torch.device("openreg", LAST))
        assert [torch.rand(3, device=torch.device("openreg", index)).tolist() for index in range(LAST + 1)] == expected

    def test_a_checkpoint_of_more_devices_is_loaded(self, tmp_path: Path) -> None:
        torch.manual_seed(0)
        _random_states.save(tmp_path, 0, torch.device("openreg", 0))
        file = tmp_path / "openreg_random_states_0.pt"
        saved = torch.load(file)
        torch.save({"device": LAST + 1, "states": [*saved["states"], saved["states"][0]]}, file)
        expected = torch.rand(3, device="openreg:0").tolist()
        _random_states.load(tmp_path, 0, torch.device("openreg", 0))
        assert torch.rand(3, device="openreg:0").tolist() == expected

    def test_a_checkpoint_without_random_states_is_named(self, tmp_path: Path) -> None:
        needs("accelerate", "transformers")
        from tests.libraries import accelerate_programs, transformers_programs

        accelerate.register()
        transformers_programs.with_dropout(str(tmp_path), 5)  # the Trainer as it is saves none
        transformers.register()
        checkpoint = str(tmp_path / "checkpoint-5")
        message = (
            rf"^openreg: the checkpoint {checkpoint} has no random states of the devices for process 0 "
            r"\(openreg_random_states_0\.pt\): dropout and other random numbers will not be those of a run that was "
            r"not interrupted\. Save checkpoints after register\(\), and resume with as many processes$"
        )
        with pytest.warns(UserWarning, match=message):
            transformers_programs.with_dropout(str(tmp_path), 5, checkpoint)
        accelerate_programs.with_dropout(str(tmp_path), checkpoint=False)
        (tmp_path / "openreg_random_states_0.pt").unlink()
        with pytest.warns(UserWarning, match="has no random states of the devices for process 0"):
            accelerate_programs.with_dropout(str(tmp_path), checkpoint=True)

    def test_a_checkpoint_of_the_cpu_has_none(self, tmp_path: Path) -> None:
        needs("accelerate", "transformers")
        from accelerate import Accelerator

        from tests.libraries.transformers_programs import trainer

        accelerate.register()
        transformers.register()
        run = trainer(str(tmp_path), use_cpu=True)
        run.train()
        run.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
        forget()
        Accelerator(cpu=True).save_state(str(tmp_path))
        assert (tmp_path / "random_states_0.pkl").is_file()
        assert not list(tmp_path.rglob("openreg_random_states*"))


def test_bfloat16_is_accepted_only_while_registered(tmp_path: Path) -> None:
    needs("accelerate", "transformers")
    from transformers import TrainingArguments

    accelerate.register()
    with pytest.raises(ValueError, match="Your setup doesn't support bf16/gpu"):
        TrainingArguments(output_dir=str(tmp_path), bf16=True)
    transformers.register()
    assert TrainingArguments(output_dir=str(tmp_path), bf16=True).device == torch.device("openreg:0")


def test_a_pipeline_refuses_an_index_without_device_and_leaves_other_choices() -> None:
    needs("transformers")
    from transformers import pipeline

    from tests.libraries.networks import language_model, tokenizer

    def made(**options: Any) -> torch.device:
        device: torch.device = pipeline("text-generation", language_model(), tokenizer=tokenizer(), **options).device
        return device

    transformers.register()
    with pytest.raises(ValueError, match=f"openreg: there is no device {LAST + 1}: pass an index from 0 to {LAST}"):
        made(device=LAST + 1)
    assert made(device=LAST) == torch.device("openreg", LAST)
    assert made(device="cpu") == made(device=-1) == torch.device("cpu")


def test_a_pipeline_computes_where_accelerate_has_put_the_model() -> None:
    needs("transformers")
    from transformers import pipeline

    from tests.libraries.networks import language_model, tokenizer

    transformers.register()
    model = language_model().to(f"openreg:{LAST}")
    model.hf_device_map = {"": LAST}
    pipe: Any = pipeline("text-generation", model, tokenizer=tokenizer())
    assert pipe.device == torch.device("openreg", LAST)
    assert pipe("word3", max_new_tokens=4, do_sample=False)[0]["generated_text"].startswith("word3")


@pytest.mark.parametrize("name", ["openreg", f"openreg:{LAST}", torch.device("openreg", LAST)])
def test_safetensors_loads_to_a_name(name: str | torch.device, tmp_path: Path) -> None:
    needs("safetensors")
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save_file

    save_file({"x": torch.arange(3.0)}, tmp_path / "x")
    if isinstance(name, str):
        with pytest.raises(SafetensorError, match="is invalid"):
            load_file(tmp_path / "x", device=name)
    safetensors.register()
    x = load_file(tmp_path / "x", device=name)["x"]
    assert x.device == torch.device(name if ":" in str(name) else "openreg:0")
    assert x.tolist() == [0, 1, 2]
    assert load_file(tmp_path / "x")["x"].device.type == "cpu"


def test_safetensors_refuses_a_device_that_does_not_exist(tmp_path: Path) -> None:
    needs("safetensors")
    from safetensors.torch import load_file, save_file

    save_file({"x": torch.arange(3.0)}, tmp_path / "x")
    safetensors.register()
    with pytest.raises(ValueError, match=f"openreg: there is no device {LAST + 1}: pass"):
        load_file(tmp_path / "x", device=f"openreg:{LAST + 1}")


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("version", ["", "0.1.0"])
def test_a_library_that_is_missing_or_old_is_named(
    name: str, version: str, tmp_path: Path, run_process: RunProcess
) -> None:
    if version:  # a distribution that is found before the installed one
        record = tmp_path / f"{name}-{version}.dist-info" / "METADATA"
        record.parent.mkdir()
        record.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    # Without the site packages no library is found.
    paths = "" if version else "sys.path[:] = [path for path in sys.path if 'site-packages' not in path]"
    ran = run_process(
        f"""
        import sys
        import torch_openreg.integrations.{name} as integration
        {paths}
        try:
            integration.register()
        except ImportError as error:
            print(error)
        """,
        PYTHONPATH=str(tmp_path),
    )
    found = f"{name} {version}" if version else f"no {name}"
    assert ran.stdout.startswith(f"openreg: the integration needs {name} "), ran.stderr
    assert f" or newer, found {found}: pip install '{name}>=" in ran.stdout


def plain(value: int, *, other: int = 0) -> int:
    return value + other


def also_plain(value: int) -> int:
    return value


def test_a_function_that_has_moved_or_changed_is_not_replaced() -> None:
    needs("safetensors")
    version = installed("safetensors")

    def refused(owner: str, name: str, parameters: str) -> str:
        with pytest.raises(RuntimeError) as caught:
            _library.Replacement(owner, name, parameters, lambda original: original).install()
        return str(caught.value).removesuffix(": use a release that has it, or adapt torch_openreg/integrations")

    assert refused("safetensors.torch", "load_file", "path") == (
        f"openreg: safetensors.torch.load_file of safetensors {version} is load_file(filename device backend), and the "
        "integration replaces load_file(path ...)"
    )
    assert refused("safetensors.torch", "gone", "path") == (
        f"openreg: safetensors.torch.gone of safetensors {version} is missing, and the integration replaces "
        "gone(path ...)"
    )
    assert refused("safetensors.nowhere", "gone", "path") == (
        f"openreg: safetensors.nowhere.gone of safetensors {version} is missing, as is safetensors.nowhere, and the "
        "integration replaces gone(path ...)"
    )


def test_a_replacement_that_is_the_function_itself_is_refused() -> None:
    original = plain
    itself = _library.Replacement(__name__, "plain", "value", lambda original: original)
    other = _library.Replacement(__name__, "also_plain", "value", lambda original: lambda *args: original(*args) + 1)
    before = also_plain
    with pytest.raises(ValueError, match=r"^openreg: the replacement of .*\.plain is that function itself: return an"):
        _library.install([other, itself])
    module = sys.modules[__name__]
    assert module.plain is inspect.unwrap(original) is original
    assert module.also_plain is before  # the first of the two is undone
    itself.remove()
    assert module.plain is original


def test_a_function_that_somebody_else_has_replaced_since_is_not_restored() -> None:
    original = plain
    ours = _library.Replacement(__name__, "plain", "value", lambda original: lambda *args: original(*args) + 1)
    ours.install()
    module = sys.modules[__name__]
    assert module.plain(1) == 2
    assert inspect.unwrap(module.plain) is original
    mine = module.plain
    module.plain = lambda value: 0
    with pytest.raises(RuntimeError, match="plain has been replaced again, by other code: undo that first"):
        ours.remove()
    module.plain = mine
    ours.remove()
    assert module.plain is original


class TestLightning:
    """The accelerator and the strategies of Lightning."""

    @pytest.fixture(autouse=True)
    def registered(self) -> None:
        needs("lightning")
        lightning.register()

    def test_names_are_registered_once_and_removed(self) -> None:
        from lightning.pytorch.accelerators import AcceleratorRegistry
        from lightning.pytorch.strategies import StrategyRegistry

        lightning.register()
        assert "openreg" in AcceleratorRegistry
        assert {"openreg", "openreg_ddp"} <= set(StrategyRegistry)
        lightning.unregister()
        lightning.unregister()
        assert "openreg" not in AcceleratorRegistry
        assert not {"openreg", "openreg_ddp"} & set(StrategyRegistry)

    @pytest.mark.parametrize(
        ("devices", "expected"),
        [(1, [0]), ("1", [0]), ([LAST], [LAST]), (-1, list(range(LAST + 1))), (f"{LAST},", [LAST])],
    )
    def test_devices_mean_indices(self, devices: Any, expected: list[int]) -> None:
        from torch_openreg.integrations._lightning import DeviceAccelerator

        assert DeviceAccelerator.parse_devices(devices) == expected

    def test_devices_that_do_not_exist_are_refused(self) -> None:
        from torch_openreg.integrations._lightning import DeviceAccelerator

        for devices in (LAST + 2, [LAST + 1]):
            with pytest.raises(
                ValueError, match=f"openreg: there is no device {LAST + 1}: pass an index from 0 to {LAST}"
            ):
                DeviceAccelerator.parse_devices(devices)
        for devices in (0, [], [0, 0], "", ",", "all"):
            with pytest.raises(ValueError, match="names no device, or one of them twice: pass a number of devices"):
                DeviceAccelerator.parse_devices(devices)

    @pytest.mark.parametrize("kind", ["Trainer", "Fabric"])
    def test_the_last_device_is_used(self, kind: str) -> None:
        import lightning as library

        options: dict[str, Any] = {"logger": False} if kind == "Trainer" else {}
        made: Any = getattr(library, kind)(accelerator="openreg", strategy="openreg", devices=[LAST], **options)
        assert made.strategy.root_device == torch.device("openreg", LAST)
        _ = torch.ones(1, device=made.strategy.root_device)
        assert made.accelerator.get_device_stats(made.strategy.root_device)["allocated_bytes.all.current"] > 0

    def test_a_strategy_that_would_train_on_the_cpu_is_refused(self) -> None:
        import lightning as library

        fabric = library.Fabric(accelerator="openreg", devices=1)
        with pytest.raises(
            ValueError, match="openreg: the strategy trains on cpu, not on the accelerator: pass strategy="
        ):
            fabric.launch()

    @pytest.mark.skipif(LAST == 0, reason="needs two devices")
    def test_one_device_for_two_is_refused(self) -> None:
        import lightning as library

        with pytest.raises(
            ValueError, match="the strategy 'openreg' trains on one device, got 2: pass devices=1, or st"
        ):
            library.Fabric(accelerator="openreg", strategy="openreg", devices=2)

    def test_a_precision_of_the_program_is_left_alone(self) -> None:
        import lightning as library
        from lightning.pytorch.plugins.precision import MixedPrecision

        mine = MixedPrecision("bf16-mixed", "cpu")
        trainer = library.Trainer(accelerator="openreg", strategy="openreg", devices=1, plugins=[mine], logger=False)
        assert trainer.precision_plugin is mine
        trainer = library.Trainer(
            accelerator="openreg", strategy="openreg", devices=1, precision="bf16-mixed", logger=False
        )
        assert trainer.precision_plugin.device == "openreg"


SCRIPTS = {
    "accelerate": """
        from torch_openreg.integrations import accelerate as integration
        integration.register()
        from accelerate import Accelerator
        from tests.libraries.accelerate_programs import epoch, prepared
        accelerator = Accelerator()
        model, optimizer, loader = prepared(accelerator)
        epoch(accelerator, model, optimizer, loader)
        trained, where, ranks = accelerator.unwrap_model(model), accelerator.device, accelerator.num_processes
    """,
    "lightning": """
        from torch_openreg.integrations import lightning as integration
        integration.register()
        import os, lightning
        from torch.utils.data import DataLoader, DistributedSampler
        from tests.libraries.lightning_programs import module_class
        from tests.libraries.networks import batches
        data = batches().dataset
        sampler = DistributedSampler(data, 2, int(os.environ["RANK"]), shuffle=False)
        trained = module_class()()
        trainer = lightning.Trainer(
            accelerator="openreg", devices=2, strategy="openreg_ddp", logger=False, max_epochs=1,
            enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False,
        )
        trainer.fit(trained, DataLoader(data, batch_size=8, sampler=sampler))
        trained, where, ranks = trained.network, trainer.strategy.root_device, trainer.world_size
    """,
}


def on_two_processes(script: str, result: str, folder: Path) -> list[Any]:
    """What an expression is on each of two processes, at the end of a script that `torchrun` starts."""
    file = folder / "script.py"
    end = f"""
        import os, torch
        torch.save({result}, f"{folder}/{{os.environ['RANK']}}")
    """
    file.write_text(textwrap.dedent(script) + textwrap.dedent(end), encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"]
    ran = subprocess.run(
        [*command, str(file)], capture_output=True, text=True, check=False, timeout=240,
        env={**os.environ, "PYTHONPATH": ".", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [torch.load(folder / str(rank), map_location="cpu") for rank in range(2)]


@pytest.mark.skipif(LAST == 0, reason="needs two devices")
@pytest.mark.parametrize("library", SCRIPTS)
def test_two_processes_train_one_model(library: str, tmp_path: Path) -> None:
    """Both have the same parameters at the end, which are those of one process with batches of twice the size."""
    needs(library)
    result = "[dict(trained.state_dict()), str(where), ranks, torch.openreg.current_device()]"
    first, second = on_two_processes(SCRIPTS[library], result, tmp_path)
    assert (first[1:], second[1:]) == (["openreg:0", 2, 0], ["openreg:1", 2, 1])
    torch.testing.assert_close(first[0], second[0], rtol=0, atol=0)
    torch.testing.assert_close(first[0], _of_one_process(clip=library == "accelerate"), rtol=1e-5, atol=1e-6)


@pytest.mark.long
@pytest.mark.skipif(LAST == 0, reason="needs two devices")
@pytest.mark.parametrize("version", [1, 2])
def test_fsdp_in_float16_skips_a_step_on_all_ranks(version: int, tmp_path: Path) -> None:
    """Only the part of rank 0 has a gradient that overflows."""
    needs("accelerate")
    script = f"""
        from torch_openreg.integrations import accelerate as integration
        integration.register()
        import torch
        from accelerate import Accelerator, FullyShardedDataParallelPlugin
        plugin = FullyShardedDataParallelPlugin(fsdp_version={version})
        accelerator = Accelerator(mixed_precision="fp16", fsdp_plugin=plugin)
        torch.manual_seed(0)
        model = torch.nn.Linear(64, 64, bias=False)
        if {version} == 1:  # its parameters are others than the model's
            model = accelerator.prepare(model)
            optimizer = accelerator.prepare(torch.optim.SGD(model.parameters(), lr=1e-6))
        else:
            model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-6))
        factors = torch.full((64,), 1e-3, device=accelerator.device)
        factors[:32] = 1e4
        outputs = model(torch.ones(2, 64, device=accelerator.device))
        accelerator.backward((outputs.float() * factors).sum())
        optimizer.step()
        dtype = str(plugin.mixed_precision_policy.param_dtype)
    """
    result = "[dtype, accelerator.optimizer_step_was_skipped, accelerator.scaler.get_scale()]"
    assert on_two_processes(script, result, tmp_path) == [["torch.float16", True, 32768.0]] * 2


@pytest.mark.skipif(LAST == 0, reason="needs two devices")
def test_each_process_continues_with_its_own_random_numbers(tmp_path: Path) -> None:
    needs("accelerate", "transformers")
    script = f"""
        from torch_openreg.integrations import accelerate, transformers
        accelerate.register()
        transformers.register()
        import torch
        from accelerate import Accelerator
        from accelerate.utils import set_seed
        from transformers import TrainerCallback
        from tests.libraries.networks import parameters
        from tests.libraries.transformers_programs import losses, trainer

        accelerator = Accelerator()
        draw = lambda number: torch.rand(number, device=accelerator.device).tolist()
        set_seed(0, device_specific=True)
        accelerator.save_state("{tmp_path}/state")
        drawn = draw(3)
        accelerator.load_state("{tmp_path}/state")
        again = draw(3)

        class Apart(TrainerCallback):
            # The Trainer gives both processes the same seed. A resumed one is here before it loads the states.
            def on_train_begin(self, args, state, control, **options):
                draw(100 * (1 + accelerator.process_index))

        def train(checkpoint=None):
            run = trainer("{tmp_path}", dropout=0.5, max_steps=5, save_steps=3, callbacks=[Apart()])
            run.train(resume_from_checkpoint=checkpoint)
            return losses(run), parameters(run.model)

        straight, resumed = train(), train("{tmp_path}/checkpoint-3")
    """
    for drawn, again, straight, resumed in (
        results := on_two_processes(script, "[drawn, again, straight, resumed]", tmp_path)
    ):
        assert drawn == again
        assert same(resumed, straight)
    assert results[0][0] != results[1][0]


def _of_one_process(clip: bool) -> dict[str, torch.Tensor]:
    from tests.libraries.networks import batches, network

    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    # The ranks take batches in turn, or rows in turn: a step sees the same sixteen rows.
    inputs, targets = (torch.cat(parts) for parts in zip(*batches(), strict=True))
    for number in range(2):
        rows = slice(16 * number, 16 * number + 16)
        torch.nn.functional.mse_loss(model(inputs[rows]), targets[rows]).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return dict(model.state_dict())
