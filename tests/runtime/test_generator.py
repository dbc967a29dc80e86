from __future__ import annotations

import copy
import pickle
import threading

import pytest
import torch

from tests.conftest import RunProcess
from tests.offers import DEVICES, LAST_DEVICE

COUNT = torch.accelerator.device_count()
LAST = COUNT - 1

# The fallback draws from a CPU generator, which uses other numbers of positions.
DRAWS_ON_THE_DEVICE = pytest.mark.needs("host kernels")


def test_state_is_seed_and_offset() -> None:
    generator = torch.Generator(LAST_DEVICE)
    assert generator.device == torch.device(LAST_DEVICE)
    generator.manual_seed(0x0102030405060708)
    generator.set_offset(5)
    state = generator.get_state()
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    assert state.view(torch.int64).tolist() == [0x0102030405060708, 5]
    assert generator.get_offset() == 5
    assert generator.initial_seed() == 0x0102030405060708


def test_set_state_repeats_the_numbers() -> None:
    generator = torch.Generator("openreg").manual_seed(7)
    torch.randn(3, device="openreg", generator=generator)
    state = generator.get_state()
    first = torch.rand(5, device="openreg", generator=generator).tolist()
    generator.set_state(state)
    assert torch.rand(5, device="openreg", generator=generator).tolist() == first
    assert torch.rand(5, device="openreg", generator=generator).tolist() != first


def test_clone_state_is_of_the_device_and_independent() -> None:
    generator = torch.Generator(LAST_DEVICE).manual_seed(9)
    clone = generator.clone_state()
    assert clone.device == torch.device(LAST_DEVICE)
    a = torch.rand(4, device=LAST_DEVICE, generator=generator)
    b = torch.rand(4, device=LAST_DEVICE, generator=clone)
    assert a.tolist() == b.tolist()


@pytest.mark.parametrize("state", [torch.zeros(15, dtype=torch.uint8), torch.zeros(16)])
def test_a_bad_state_is_refused(state: torch.Tensor) -> None:
    with pytest.raises((RuntimeError, TypeError), match=r"16 elements of torch.uint8|ByteTensor"):
        torch.Generator("openreg").set_state(state)


def test_manual_seed_fixes_every_device() -> None:
    draws = []
    for _ in range(2):
        torch.manual_seed(11)
        draws.append([torch.randn(4, device=d).tolist() for d in DEVICES])
    assert draws[0] == draws[1]
    assert draws[0][0] == draws[0][-1]  # each device starts from the same seed


def test_device_draws_leave_the_cpu_generator_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    torch.rand(100, device="openreg")
    assert torch.equal(torch.rand(3), expected)


@DRAWS_ON_THE_DEVICE
def test_seed_of_one_device() -> None:
    with torch.openreg.device(LAST):
        torch.openreg.manual_seed(5)
        assert torch.openreg.initial_seed() == 5
        a = torch.rand(3, device="openreg")
    torch.openreg.set_rng_state(torch.tensor([5, 0]).view(torch.uint8), "openreg:0")
    assert torch.rand(3, device="openreg:0").tolist() == a.tolist()
    assert torch.openreg.get_rng_state("openreg:0").view(torch.int64).tolist() == [5, 3]


def test_negative_seeds_are_seeds() -> None:
    torch.openreg.manual_seed_all(-1)
    assert torch.openreg.initial_seed() == 2**64 - 1


def test_fork_rng_restores_the_state() -> None:
    torch.manual_seed(3)
    with torch.random.fork_rng(devices=range(COUNT), device_type="openreg"):
        inside = torch.rand(3, device="openreg").tolist()
    assert torch.rand(3, device="openreg").tolist() == inside


def test_a_generator_of_another_device_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"openreg:0 needs a generator of that device, got one of cpu"):
        torch.rand(2, device="openreg:0", generator=torch.Generator())
    for other in DEVICES[1:]:
        with pytest.raises(RuntimeError, match=f"got one of {other}"):
            torch.rand(2, device="openreg:0", generator=torch.Generator(other))


@pytest.mark.parametrize("index", range(len(DEVICES)))
def test_copies_keep_the_device_and_the_state(index: int) -> None:
    generator = torch.Generator(f"openreg:{index}").manual_seed(2**63 + 1)
    generator.set_offset(2**40)
    for duplicate in (copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), lambda g: g.clone_state()):
        copied = duplicate(generator)
        assert copied.device == generator.device
        assert torch.equal(copied.get_state(), generator.get_state())
        copied.set_offset(0)
        assert generator.get_offset() == 2**40


@DRAWS_ON_THE_DEVICE
def test_graph_safe_states_are_shared() -> None:
    generator = torch.Generator("openreg").manual_seed(5)
    handle = generator.graphsafe_get_state()
    assert handle.device == generator.device
    torch.rand(3, device="openreg", generator=handle)
    assert generator.get_offset() == 3
    generator.manual_seed(6)
    assert handle.initial_seed() == 6
    other = torch.Generator("openreg")
    other.graphsafe_set_state(handle)
    torch.rand(4, device="openreg", generator=generator)
    assert other.get_offset() == handle.get_offset() == 4
    for foreign in ("cpu", *DEVICES[1:]):
        with pytest.raises(
            RuntimeError, match=f"of openreg:0 can share the state of another one .* got one of {foreign}"
        ):
            generator.graphsafe_set_state(torch.Generator(foreign))


@DRAWS_ON_THE_DEVICE
def test_threads_that_share_a_state_reserve_disjoint_positions() -> None:
    generator = torch.Generator("openreg").manual_seed(5)
    handles = [generator.graphsafe_get_state() for _ in range(4)]
    numbers: list[int] = []

    def draw(handle: torch.Generator) -> None:
        for _ in range(100):
            x = torch.empty(2, dtype=torch.int64, device="openreg")
            numbers.extend(x.random_(-(2**63), None, generator=handle).tolist())

    threads = [threading.Thread(target=draw, args=(handle,)) for handle in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(numbers)) == 800
    assert generator.get_offset() == 800


def test_seeds_from_the_operating_system() -> None:
    torch.openreg.seed_all()
    first = torch.openreg.default_generators[0].initial_seed()
    assert [generator.initial_seed() for generator in torch.openreg.default_generators] == [first] * COUNT
    with torch.openreg.device(LAST):
        torch.openreg.seed()
        assert torch.openreg.initial_seed() != first
    for other in range(LAST):
        with torch.openreg.device(other):
            assert torch.openreg.initial_seed() == first


@DRAWS_ON_THE_DEVICE
def test_states_of_all_devices() -> None:
    torch.openreg.manual_seed_all(8)
    torch.rand(5, device=LAST_DEVICE)
    states = torch.openreg.get_rng_state_all()
    assert [state.view(torch.int64).tolist() for state in states] == [[8, 0]] * LAST + [[8, 5]]
    torch.openreg.manual_seed_all(9)
    torch.openreg.set_rng_state_all(iter(states))
    assert [g.initial_seed() for g in torch.openreg.default_generators] == [8] * COUNT
    with pytest.raises(ValueError, match=f"there are {COUNT} devices, and {2 * COUNT} states, one for each device"):
        torch.openreg.set_rng_state_all(states * 2)
    # A state of a machine with fewer devices.
    torch.openreg.manual_seed_all(9)
    torch.openreg.set_rng_state_all(states[:1])
    assert [g.initial_seed() for g in torch.openreg.default_generators] == [8] + [9] * LAST


def test_default_generators_are_a_sequence() -> None:
    generators = torch.openreg.default_generators
    assert len(generators) == COUNT
    assert generators[0] is torch.openreg.default_generators[-COUNT]
    assert generators[LAST] in generators
    assert [g.device.index for g in generators[::-1]] == list(range(COUNT))[::-1]
    for index in (COUNT, -COUNT - 1):
        with pytest.raises(IndexError, match=f"has {COUNT} elements, one for each device, got index {index}"):
            generators[index]
    assert torch.openreg._get_generator(torch.device(LAST_DEVICE)) is generators[LAST]
    with torch.openreg.device(LAST):
        assert torch.openreg._get_generator(torch.device("openreg")) is generators[LAST]


def test_seeding_waits_for_the_driver(run_process: RunProcess) -> None:
    result = run_process("""
        import torch
        torch.openreg.seed_all()
        torch.manual_seed(12)
        torch.openreg.default_generators
        assert not torch.openreg.is_initialized()
        print([g.initial_seed() for g in torch.openreg.default_generators])
    """)
    assert result.stdout == f"{[12] * COUNT}\n", result.stderr


PHILOX_STATE = pytest.mark.skipif(not hasattr(torch.Generator, "philox_state"), reason="PyTorch has it since 2.14")


@PHILOX_STATE
@pytest.mark.parametrize(("increment", "positions"), [(0, 0), (1, 1), (4, 1), (5, 2), (4000, 1000)])
def test_philox_state_reserves_whole_positions(increment: int, positions: int) -> None:
    generator = torch.Generator(LAST_DEVICE).manual_seed(2**63 + 5)
    generator.set_offset(3)
    state = generator.philox_state(increment)
    assert [(tensor.device.type, tensor.dtype, tuple(tensor.shape)) for tensor in state] == [
        ("cpu", torch.int64, (1,))
    ] * 3
    seed, offset, inside_a_graph = (tensor.item() for tensor in state)
    assert (seed % 2**64, offset, inside_a_graph) == (2**63 + 5, 4 * 3, 0)
    assert generator.get_offset() == 3 + positions


@PHILOX_STATE
def test_philox_state_refuses_positions_that_it_cannot_count() -> None:
    generator = torch.Generator("openreg").manual_seed(1)
    generator.set_offset(2**62 - 1)
    assert generator.philox_state(4)[1].item() % 2**64 == 2**64 - 4
    with pytest.raises(
        RuntimeError, match=rf"at most at position {2**62 - 1}, it is at {2**62}: move it with set_offset"
    ):
        generator.philox_state(4)
    assert generator.get_offset() == 2**62
