from __future__ import annotations

import pytest
import torch


def test_state_is_seed_and_offset() -> None:
    generator = torch.Generator("openreg:1")
    assert generator.device == torch.device("openreg:1")
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
    generator = torch.Generator("openreg:1").manual_seed(9)
    clone = generator.clone_state()
    assert clone.device == torch.device("openreg:1")
    a = torch.rand(4, device="openreg:1", generator=generator)
    b = torch.rand(4, device="openreg:1", generator=clone)
    assert a.tolist() == b.tolist()


@pytest.mark.parametrize("state", [torch.zeros(15, dtype=torch.uint8), torch.zeros(16)])
def test_a_bad_state_is_refused(state: torch.Tensor) -> None:
    with pytest.raises((RuntimeError, TypeError), match=r"16 elements of torch.uint8|ByteTensor"):
        torch.Generator("openreg").set_state(state)


def test_manual_seed_fixes_every_device() -> None:
    draws = []
    for _ in range(2):
        torch.manual_seed(11)
        draws.append([torch.randn(4, device=d).tolist() for d in ("openreg:0", "openreg:1")])
    assert draws[0] == draws[1]
    assert draws[0][0] == draws[0][1]  # each device starts from the same seed


def test_device_draws_leave_the_cpu_generator_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    torch.rand(100, device="openreg")
    assert torch.equal(torch.rand(3), expected)


def test_seed_of_one_device() -> None:
    with torch.openreg.device(1):
        torch.openreg.manual_seed(5)
        assert torch.openreg.initial_seed() == 5
        a = torch.rand(3, device="openreg")
    torch.openreg.set_rng_state(torch.tensor([5, 0]).view(torch.uint8), "openreg:0")
    assert torch.rand(3, device="openreg:0").tolist() == a.tolist()
    assert torch.openreg.get_rng_state("openreg:0").view(torch.int64).tolist() == [5, 1]


def test_negative_seeds_are_seeds() -> None:
    torch.openreg.manual_seed_all(-1)
    assert torch.openreg.initial_seed() == 2**64 - 1


def test_fork_rng_restores_the_state() -> None:
    torch.manual_seed(3)
    with torch.random.fork_rng(devices=[0, 1], device_type="openreg"):
        inside = torch.rand(3, device="openreg").tolist()
    assert torch.rand(3, device="openreg").tolist() == inside


def test_distribution() -> None:
    torch.manual_seed(0)
    x = torch.randn(100_000, device="openreg").cpu()
    assert abs(x.mean().item()) < 0.02
    assert abs(x.std().item() - 1) < 0.02
    u = torch.rand(100_000, device="openreg").cpu()
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean().item() - 0.5) < 0.01
    # Consecutive draws are independent: their correlation is that of noise.
    a, b = torch.randn(50_000, device="openreg").cpu(), torch.randn(50_000, device="openreg").cpu()
    assert abs(torch.corrcoef(torch.stack([a, b]))[0, 1].item()) < 0.02


def test_a_generator_of_another_device_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"openreg:0 needs a generator of that device, got one of cpu"):
        torch.rand(2, device="openreg:0", generator=torch.Generator())
    with pytest.raises(RuntimeError, match=r"got one of openreg:1"):
        torch.rand(2, device="openreg:0", generator=torch.Generator("openreg:1"))


def test_dropout_obeys_the_seed_and_its_probability() -> None:
    x = torch.ones(20_000, device="openreg", requires_grad=True)
    torch.manual_seed(2)
    y = torch.nn.functional.dropout(x, 0.3)
    torch.manual_seed(2)
    assert torch.equal(torch.nn.functional.dropout(x, 0.3).cpu(), y.cpu())
    kept = y.detach().cpu() != 0
    assert abs(kept.float().mean().item() - 0.7) < 0.02
    torch.testing.assert_close(y.detach().cpu()[kept], torch.full((int(kept.sum()),), 1 / 0.7))
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), y.detach().cpu())
    assert torch.nn.functional.dropout(x, 1.0).abs().sum().item() == 0
    assert torch.equal(torch.nn.functional.dropout(x, 0.5, training=False), x)


def test_random_permutation_and_multinomial() -> None:
    torch.manual_seed(4)
    assert sorted(torch.randperm(50, device="openreg").tolist()) == list(range(50))
    weights = torch.tensor([0.0, 1.0, 0.0], device="openreg")
    assert torch.multinomial(weights, 5, replacement=True).tolist() == [1] * 5
