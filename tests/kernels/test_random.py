from __future__ import annotations

import math
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.conftest import RunProcess
from tests.offers import DEVICES, LAST_DEVICE

# The fallback draws from a CPU generator: other numbers, and other positions of the device's generator.
pytestmark = pytest.mark.needs("host kernels")
REAL = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGRAL = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
ROOT = Path(__file__).parents[2]

Draw = Callable[[Tensor], Tensor]

# Every operator that fills a tensor, with arguments that suit all of its dtypes.
FILLS: dict[str, tuple[Draw, list[torch.dtype]]] = {
    "uniform_": (lambda t: t.uniform_(), [*REAL, torch.complex64]),
    "normal_": (lambda t: t.normal_(), [*REAL, torch.complex64]),
    "log_normal_": (lambda t: t.log_normal_(0, 0.5), REAL),
    "exponential_": (lambda t: t.exponential_(), REAL),
    "cauchy_": (lambda t: t.cauchy_(), REAL),
    "geometric_": (lambda t: t.geometric_(0.4), [*REAL, *INTEGRAL]),
    "random_": (lambda t: t.random_(), [*REAL, *INTEGRAL, torch.bool]),
    "random_.to": (lambda t: t.random_(100), [*REAL, *INTEGRAL, torch.uint16, torch.uint32, torch.uint64]),
    "random_.from": (lambda t: t.random_(3, 90), [*REAL, *INTEGRAL, torch.uint16, torch.uint32, torch.uint64]),
    "bernoulli_": (lambda t: t.bernoulli_(0.3), [*REAL, *INTEGRAL, torch.bool]),
    "bernoulli_.Tensor": (
        lambda t: t.bernoulli_(torch.full(t.shape, 0.3, device=t.device)),
        [*REAL, *INTEGRAL, torch.bool],
    ),
}
CASES = [pytest.param(draw, dtype, id=f"{name}-{dtype}") for name, (draw, dtypes) in FILLS.items() for dtype in dtypes]


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    before = torch.openreg.get_rng_state_all()
    torch.openreg.manual_seed_all(42)
    torch.openreg.reset_fallback_stats()
    yield
    torch.openreg.set_rng_state_all(before)


def drawn(draw: Draw, dtype: torch.dtype, count: int = 20_000) -> Tensor:
    return draw(torch.empty(count, dtype=dtype, device="openreg")).cpu()


def distance(sample: Tensor, distribution: Callable[[Tensor], Tensor]) -> float:
    """The Kolmogorov-Smirnov statistic: the largest gap between the cumulative functions of sample and distribution."""
    ordered = sample.double().sort().values
    expected = distribution(ordered)
    steps = torch.arange(len(ordered) + 1, dtype=torch.float64) / len(ordered)
    return max((steps[1:] - expected).max().item(), (expected - steps[:-1]).max().item())


def philox(counter: list[int], key: list[int]) -> list[int]:
    """A second implementation of the generator, from the paper."""
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (second >> 32) ^ counter[1] ^ key[0],
            second & 0xFFFFFFFF,
            (first >> 32) ^ counter[3] ^ key[1],
            first & 0xFFFFFFFF,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


KNOWN = [  # from Random123, the library of the paper's authors
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def test_known_answers_of_philox(tmp_path: Path) -> None:
    source = tmp_path / "known.cpp"
    source.write_text(
        '#include <cstdio>\n#include <cstdlib>\n#include "kernels/random/philox.h"\n'
        "int main(int, char** argv) {\n"
        "  auto word = [&](int i) { return static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 16)); };\n"
        "  const openreg::PhiloxBlock counter{word(1), word(2), word(3), word(4)};\n"
        "  uint32_t out[8];\n"
        "  openreg::philox<2>(2, [&](size_t) { return counter; }, {word(5), word(6)}, out);\n"
        "  for (int i = 0; i < 4; ++i) if (out[i] != out[4 + i]) return 1;\n"
        '  std::printf("%08x %08x %08x %08x", out[0], out[1], out[2], out[3]);\n'
        "}\n"
    )
    program = tmp_path / "known"
    subprocess.run(["c++", "-std=c++20", f"-I{ROOT / 'csrc'}", str(source), "-o", str(program)], check=True)
    for counter, key, expected in KNOWN:
        arguments = [str(program), *counter.split(), *key.split()]
        assert subprocess.run(arguments, check=True, capture_output=True, text=True).stdout == expected
        in_python = philox([int(w, 16) for w in counter.split()], [int(w, 16) for w in key.split()])
        assert " ".join(f"{word:08x}" for word in in_python) == expected


def block(seed: int, position: int, sharing: int, in_pairs: bool = False) -> list[int]:
    """The words of the block that the element at a position takes its bits from, with `sharing` elements to a block."""
    number = position % 2**64 // sharing
    return philox([number & 0xFFFFFFFF, number >> 32, sharing - 1, int(in_pairs)], [seed & 0xFFFFFFFF, seed >> 32])


def bits32(seed: int, position: int, in_pairs: bool = False) -> int:
    return block(seed, position, 4, in_pairs)[position % 4]


def bits64(seed: int, position: int, in_pairs: bool = False) -> int:
    words = block(seed, position, 2, in_pairs)
    first = position % 2 * 2
    return words[first] | words[first + 1] << 32


def bits128(seed: int, position: int) -> int:
    """The whole block, as the fraction that a large range is multiplied by."""
    words = block(seed, position, 1)
    return (words[0] | words[1] << 32) << 64 | words[2] | words[3] << 32


def normal(position: int, bits: Callable[[int, int, bool], int], seed: int, digits: int, width: int) -> float:
    """Box and Muller: the elements 2n and 2n + 1 are the coordinates of one point."""
    first = position - position % 2
    inside = (2 * (bits(seed, first, True) >> (width - digits + 1)) + 1) / 2**digits
    angle = 2 * math.pi * (bits(seed, first + 1, True) / 2**width)
    return math.sqrt(-2 * math.log(inside)) * (math.sin(angle) if position % 2 else math.cos(angle))


WIDE = 2**62 + 2**63 - 1
# An operator of each way to share a block, the formula for an element, and the relative error.
FORMULAS: dict[str, tuple[Draw, torch.dtype, Callable[[int, int], float], float]] = {
    "four": (lambda t: t.uniform_(), torch.float32, lambda s, p: (bits32(s, p) >> 8) / 2**24, 0),
    "four, half": (lambda t: t.uniform_(), torch.float16, lambda s, p: (bits32(s, p) >> 21) / 2**11, 0),
    "four, bfloat16": (lambda t: t.uniform_(), torch.bfloat16, lambda s, p: (bits32(s, p) >> 24) / 2**8, 0),
    "four, bool": (lambda t: t.bernoulli_(0.3), torch.bool, lambda s, p: (bits32(s, p) >> 1) / 2**31 < 0.3, 0),
    "four, exponential": (
        lambda t: t.exponential_(),
        torch.float32,
        lambda s, p: -math.log((2 * (bits32(s, p) >> 9) + 1) / 2**24),
        1e-6,
    ),
    "two": (lambda t: t.uniform_(), torch.float64, lambda s, p: (bits64(s, p) >> 11) / 2**53, 0),
    "two, integers": (lambda t: t.random_(1000), torch.int16, lambda s, p: bits64(s, p) * 1000 >> 64, 0),
    "two, 2**32": (lambda t: t.random_(2**32), torch.int64, lambda s, p: bits64(s, p) >> 32, 0),
    "one": (lambda t: t.random_(2**32 + 1), torch.int64, lambda s, p: bits128(s, p) * (2**32 + 1) >> 128, 0),
    "one, wide": (
        lambda t: t.random_(-(2**62), 2**63 - 1),
        torch.int64,
        lambda s, p: (bits128(s, p) * WIDE >> 128) - 2**62,
        0,
    ),
    "pairs of four": (lambda t: t.normal_(), torch.float32, lambda s, p: normal(p, bits32, s, 24, 32), 4e-6),
    "pairs of two": (lambda t: t.normal_(), torch.float64, lambda s, p: normal(p, bits64, s, 53, 64), 1e-12),
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("seed", [1, 0x0123456789ABCDEF, 2**64 - 1])
@pytest.mark.parametrize("offset", [0, 1, 2, 3, 2**34 - 5, 2**64 - 3])
def test_values_are_those_of_the_published_generator(name: str, seed: int, offset: int) -> None:
    draw, dtype, formula, error = FORMULAS[name]
    generator = torch.openreg.default_generators[0]
    for count in range(1, 10):
        generator.manual_seed(seed)
        generator.set_offset(offset)
        actual = draw(torch.empty(count, dtype=dtype, device="openreg")).tolist()
        expected = [formula(seed, (offset + number) % 2**64) for number in range(count)]
        for a, e in zip(actual, expected, strict=True):
            assert math.isclose(a, e, rel_tol=error, abs_tol=error), (count, a, e)
        assert generator.get_offset() == (offset + count) % 2**64


@pytest.mark.parametrize("name", FORMULAS)
def test_batches_join_without_a_gap(name: str) -> None:
    """A kernel computes hundreds of values at a time, from wherever the block of the first element begins."""
    draw, dtype, formula, error = FORMULAS[name]
    for offset, count in ((0, 255), (0, 256), (0, 257), (3, 253), (3, 254), (1, 1100)):
        torch.openreg.default_generators[0].set_offset(offset)
        actual = draw(torch.empty(count, dtype=dtype, device="openreg")).tolist()
        expected = [formula(42, offset + number) for number in range(count)]
        assert all(math.isclose(a, e, rel_tol=error, abs_tol=error) for a, e in zip(actual, expected, strict=True))


def test_operators_that_share_blocks_differently_draw_unrelated_numbers() -> None:
    """Otherwise a draw of other width would meet bits of an earlier one, although the positions differ."""
    positions = range(64)
    drawn_bits = [bits128(42, p) for p in positions]
    seen = {word for bits in drawn_bits for word in (bits >> 96, bits >> 64 & 0xFFFFFFFF, bits & 0xFFFFFFFF)}
    for in_pairs in (False, True):
        for p in positions:
            wide = bits64(42, p, in_pairs)
            for word in (bits32(42, p, in_pairs), wide & 0xFFFFFFFF, wide >> 32):
                assert word not in seen
                seen.add(word)
    # The last uniform number and the first normal one have positions of one block. The radius of a normal number comes
    # from its first position: it must not be that of the uniform number.
    uniform, normals = [], []
    for seed in range(2000):
        torch.openreg.manual_seed(seed)
        uniform.append(torch.rand(1, device="openreg").item())
        normals.append(abs(torch.randn(1, device="openreg").item()))
    related = torch.corrcoef(torch.tensor([uniform, normals]))[0, 1].item()
    assert abs(related) < 0.09


@pytest.mark.skipif(not hasattr(torch.Generator, "philox_state"), reason="PyTorch has it since 2.14")
def test_philox_state_and_operators_draw_from_one_sequence() -> None:
    """As PyTorch documents it: the offset, divided by four, is the counter from which the caller may draw."""
    generator = torch.Generator("openreg").manual_seed(42)
    torch.rand(3, device="openreg", generator=generator)
    copy = generator.clone_state()
    seed, offset, _ = generator.philox_state(8)
    ours = []
    for counter in (offset.item() // 4, offset.item() // 4 + 1):
        words = philox([counter & 0xFFFFFFFF, counter >> 32, 0, 0], [seed.item() & 0xFFFFFFFF, seed.item() >> 32])
        ours.append(((words[0] | words[1] << 32) << 64 | words[2] | words[3] << 32) * 2**62 >> 128)
    # A range of more than 2**32 takes whole blocks.
    drawn = torch.empty(3, dtype=torch.int64, device="openreg").random_(2**62, generator=copy).tolist()
    next_one = torch.empty(1, dtype=torch.int64, device="openreg").random_(2**62, generator=generator).item()
    assert drawn[:2] == ours
    assert next_one == drawn[2]  # no operator draws what was reserved


@pytest.mark.parametrize(("draw", "dtype"), CASES)
def test_values_depend_on_the_seed_alone(draw: Draw, dtype: torch.dtype) -> None:
    def values(device: str, shape: Callable[[Tensor], Tensor]) -> list[object]:
        torch.openreg.manual_seed_all(9)
        return draw(shape(torch.empty(24, dtype=dtype, device=device))).cpu().flatten().tolist()

    expected = values("openreg:0", lambda t: t)
    assert values(LAST_DEVICE, lambda t: t) == expected
    assert values("openreg:0", lambda t: t.view(2, 3, 4)) == expected
    assert values("openreg:0", lambda t: t.view(4, 3, 2).permute(2, 1, 0)) == expected
    assert values("openreg:0", lambda t: t.new_empty(48)[::2]) == expected
    assert values("openreg:0", lambda t: t.new_empty(30, 9)[3:27, 4]) == expected
    assert values("openreg:0", lambda t: t.new_empty(2, 3, 2, 2).contiguous(memory_format=torch.channels_last)) == (
        expected
    )


@pytest.mark.parametrize(("draw", "dtype"), CASES)
def test_a_draw_uses_one_position_for_each_element(draw: Draw, dtype: torch.dtype) -> None:
    words = 2 if dtype.is_complex else 1
    one = draw(torch.empty(12, dtype=dtype, device="openreg"))
    assert torch.openreg.get_rng_state().view(torch.int64).tolist() == [42, 12 * words]
    torch.openreg.manual_seed(42)
    first, second = (draw(torch.empty(n, dtype=dtype, device="openreg")) for n in (5, 7))
    assert torch.cat([first, second]).tolist() == one.tolist()


@pytest.mark.parametrize(("draw", "dtype"), CASES)
def test_empty_and_zero_dimensional(draw: Draw, dtype: torch.dtype) -> None:
    empty = torch.empty(0, 3, dtype=dtype, device="openreg")
    assert draw(empty) is empty
    assert torch.openreg.get_rng_state().view(torch.int64).tolist() == [42, 0]
    scalar = draw(torch.empty((), dtype=dtype, device="openreg")).item()
    torch.openreg.manual_seed(42)
    assert draw(torch.empty(1, dtype=dtype, device="openreg")).tolist() == [scalar]


@pytest.mark.parametrize("draw", [pytest.param(draw, id=name) for name, (draw, _) in FILLS.items()])
def test_expanded_outputs_are_refused_as_on_the_cpu(draw: Draw) -> None:
    for device in ("cpu", "openreg"):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single"):
            draw(torch.empty(1, 3, device=device).expand(4, 3))


@pytest.mark.parametrize("draw", [pytest.param(draw, id=name) for name, (draw, _) in FILLS.items()])
def test_only_the_elements_of_a_view_are_written(draw: Draw) -> None:
    whole = torch.full((6, 5), -7.0, device="openreg")
    draw(whole[1:5, 1::2])
    rest = torch.ones(6, 5, dtype=torch.bool)
    rest[1:5, 1::2] = False
    assert (whole.cpu()[rest] == -7).all()
    assert (whole.cpu()[~rest] != -7).all()


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_uniform(dtype: torch.dtype) -> None:
    x = drawn(lambda t: t.uniform_(), dtype)
    assert x.min() >= 0
    assert x.max() < 1
    # A dtype of few bits has few numbers, so the cumulative function has steps of that size.
    assert distance(x, lambda v: v) < 0.012 + torch.finfo(dtype).eps / 2
    shifted = drawn(lambda t: t.uniform_(-3, 5), dtype)
    assert shifted.min() >= -3
    assert shifted.max() < 5
    assert abs(shifted.double().mean().item() - 1) < 0.05


def test_narrower_dtypes_hold_the_same_numbers_cut_off() -> None:
    numbers = {}
    for dtype in REAL[:3]:
        torch.openreg.manual_seed(1)
        numbers[dtype] = drawn(lambda t: t.uniform_(), dtype, 1000).double()
    for dtype, digits in zip(REAL[:2], (11, 8), strict=True):
        scale = 2.0**digits
        assert torch.equal(numbers[dtype], (numbers[torch.float32] * scale).floor() / scale)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_uniform_never_returns_the_upper_bound(dtype: torch.dtype) -> None:
    low, high = (1, 2) if dtype == torch.bfloat16 else (1000, 1001)
    assert drawn(lambda t: t.uniform_(low, high), dtype).max() < high


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_normal(dtype: torch.dtype) -> None:
    x = drawn(lambda t: t.normal_(), dtype)
    assert distance(x, torch.special.ndtr) < 0.012 + torch.finfo(dtype).eps
    x = drawn(lambda t: t.normal_(3, 0.5), dtype).double()
    assert abs(x.mean().item() - 3) < 0.02
    assert abs(x.std().item() - 0.5) < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_normal_has_the_moments_of_the_distribution(dtype: torch.dtype) -> None:
    x = drawn(lambda t: t.normal_(), dtype, 200_000).double()
    for power, expected in enumerate((0, 1, 0, 3, 0, 15), start=1):
        assert abs((x**power).mean().item() - expected) < 0.01 * math.factorial(power) ** 0.7


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("name", ["uniform_", "normal_", "exponential_"])
def test_neighbors_are_independent(name: str, dtype: torch.dtype) -> None:
    """Neighbors share a block, and the two normal numbers of a pair are computed from the same bits."""
    draw, _ = FILLS[name]
    x = drawn(draw, dtype, 200_000).double()
    transformed = (x, x.abs(), x.square(), (x - x.median()).sign())
    for distance_between in (1, 2, 3, 4):
        for start in (0, 1, 2, 3):
            for values in transformed:
                first = values[start:-8:4]
                second = values[start + distance_between :: 4][: len(first)]
                assert torch.corrcoef(torch.stack([first, second]))[0, 1].abs() < 0.02


def test_the_points_of_pairs_have_every_direction() -> None:
    for dtype in (torch.float32, torch.float64):
        pairs = drawn(lambda t: t.normal_(), dtype, 200_000).double().view(-1, 2)
        turn = torch.atan2(pairs[:, 1], pairs[:, 0]) / (2 * math.pi) + 0.5
        assert distance(turn, lambda v: v) < 0.006
        squared = pairs.square().sum(1)
        assert distance(squared, lambda v: 1 - torch.exp(-v / 2)) < 0.006
        assert torch.corrcoef(torch.stack([turn, squared]))[0, 1].abs() < 0.012


@pytest.mark.long
def test_logarithm_and_circle_are_accurate(tmp_path: Path) -> None:
    """Errors in units in the last place, against the C library: near 0 and 1, and at the borders of the octants."""
    source = tmp_path / "elementary.cpp"
    source.write_text(
        r"""
        #include <algorithm>
        #include <cmath>
        #include <cstdio>
        #include "kernels/random/elementary.h"
        template <class Real, class Bits>
        void measure() {
          constexpr int kDigits = std::numeric_limits<Real>::digits;
          constexpr int kBits = std::numeric_limits<Bits>::digits;
          long double log_error = 0, circle_error = 0;
          for (Bits i = 0; i < 400000; ++i) {
            const Bits half = Bits{1} << (kDigits - 2);
            const Bits spread = i * (half / 300000);
            for (const Bits n : {Bits(i), Bits(2 * half - 1 - i), Bits(half + i), Bits(half - 1 - i), spread}) {
              const Real u = static_cast<Real>(2 * (n % (2 * half)) + 1) / static_cast<Real>(4 * half);
              const long double exact = std::log(static_cast<long double>(u));
              log_error = std::max(log_error, std::abs(openreg::series_log(u) - exact) / std::abs(exact));
            }
            const Bits eighth = Bits{1} << (kBits - 3);
            for (Bits turn = 0; turn < 8; ++turn) {
              const Bits border = turn * eighth;
              for (const Bits bits : {Bits(border + i), Bits(border - i), Bits(border + i * (eighth / 400000))}) {
                const long double turns = bits / std::exp2(static_cast<long double>(kBits));
                const long double angle = 2 * std::numbers::pi_v<long double> * turns;
                const auto point = openreg::point_on_circle<Real>(bits);
                circle_error = std::max(circle_error, std::abs(point.cosine - std::cos(angle)));
                circle_error = std::max(circle_error, std::abs(point.sine - std::sin(angle)));
              }
            }
          }
          const long double unit = std::exp2(1.0L - kDigits);
          std::printf("%Lf %Lf\n", log_error / unit, circle_error / unit);
        }
        int main() {
          measure<float, uint32_t>();
          measure<double, uint64_t>();
        }
        """
    )
    include = Path(torch.__file__).parent / "include"
    program = tmp_path / "elementary"
    command = ["c++", "-std=c++20", "-O2", f"-I{ROOT / 'csrc'}", f"-I{include}", str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    lines = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.split()
    errors = [float(text) for text in lines]
    assert len(errors) == 4
    assert all(0 < error < 2.5 for error in errors), errors


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_normal(dtype: torch.dtype) -> None:
    x = drawn(lambda t: t.normal_(0, 2), dtype)
    for part in (x.real, x.imag):
        assert distance(part, lambda v: torch.special.ndtr(v / math.sqrt(2))) < 0.012
    assert abs(x.abs().square().mean().item() - 4) < 0.1


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_distributions_by_inversion(dtype: torch.dtype) -> None:
    eps = torch.finfo(dtype).eps
    x = drawn(lambda t: t.exponential_(2), dtype)
    assert x.min() > 0
    assert distance(x, lambda v: 1 - torch.exp(-2 * v)) < 0.012 + eps
    x = drawn(lambda t: t.cauchy_(1, 3), dtype)
    assert distance(x, lambda v: torch.atan((v - 1) / 3) / math.pi + 0.5) < 0.012 + eps
    x = drawn(lambda t: t.log_normal_(0.5, 0.7), dtype)
    assert distance(x, lambda v: torch.special.ndtr((v.log() - 0.5) / 0.7)) < 0.012 + eps


@pytest.mark.parametrize("dtype", [*REAL, *INTEGRAL], ids=str)
def test_geometric(dtype: torch.dtype) -> None:
    x = drawn(lambda t: t.geometric_(0.4), dtype).double()
    for trials in range(1, 6):
        assert abs((x == trials).double().mean().item() - 0.6 ** (trials - 1) * 0.4) < 0.012


def test_geometric_stops_at_the_largest_number() -> None:
    x = drawn(lambda t: t.geometric_(1e-4), torch.int8)
    assert x.min() >= 1
    assert (x == 127).double().mean() > 0.95


@pytest.mark.parametrize("dtype", [*REAL, *INTEGRAL, torch.bool], ids=str)
def test_random_without_bounds(dtype: torch.dtype) -> None:
    x = drawn(lambda t: t.random_(), dtype).double()
    if dtype.is_floating_point:
        highest = 2.0 ** {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}[dtype]
    else:
        highest = 1 if dtype == torch.bool else float(torch.iinfo(dtype).max)
    assert x.min() >= 0
    assert x.max() <= highest
    assert abs(x.mean().item() / highest - 0.5) < 0.012


@pytest.mark.parametrize("dtype", [*REAL, *INTEGRAL, torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_random_with_bounds(dtype: torch.dtype) -> None:
    x = drawn(lambda t: t.random_(3, 9), dtype).double()
    for value in range(3, 9):
        assert abs((x == value).double().mean().item() - 1 / 6) < 0.012
    assert set(x.tolist()) == {3, 4, 5, 6, 7, 8}


def test_random_over_large_ranges_is_even() -> None:
    # A remainder would give the lower half of this range twice the weight of the upper one.
    x = drawn(lambda t: t.random_(-(2**62), 2**63 - 1), torch.int64)
    for bound in (-(2**61), 0, 2**61, 2**62):
        expected = (bound + 2**62) / (2**63 + 2**62)
        assert abs((x < bound).double().mean().item() - expected) < 0.012
    x = drawn(lambda t: t.random_(-(2**63), None), torch.int64)
    assert abs((x < 0).double().mean().item() - 0.5) < 0.012
    x = drawn(lambda t: t.random_(5, None), torch.int8)
    assert x.min() == 5
    assert x.max() == 127


@pytest.mark.parametrize("dtype", [*REAL, *INTEGRAL, torch.bool], ids=str)
def test_bernoulli(dtype: torch.dtype) -> None:
    x = drawn(lambda t: t.bernoulli_(0.3), dtype).double()
    assert set(x.tolist()) == {0.0, 1.0}
    assert abs(x.mean().item() - 0.3) < 0.012
    assert drawn(lambda t: t.bernoulli_(0), dtype).double().sum() == 0
    assert drawn(lambda t: t.bernoulli_(1), dtype).double().mean() == 1


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_bernoulli_with_a_probability_for_each_element(dtype: torch.dtype) -> None:
    p = torch.tensor([0.0, 0.25, 1.0], dtype=dtype, device="openreg")
    x = torch.empty(20_000, 3, device="openreg").bernoulli_(p).cpu()
    torch.testing.assert_close(x.mean(0), torch.tensor([0, 0.25, 1]), atol=0.012, rtol=0)
    torch.openreg.manual_seed(5)
    result = torch.bernoulli(p.expand(4, 3))
    torch.openreg.manual_seed(5)
    out = torch.empty(0, device="openreg", dtype=dtype)
    assert torch.bernoulli(p.expand(4, 3), out=out) is out
    assert torch.equal(out, result)
    torch.openreg.manual_seed(5)
    assert torch.equal(torch.empty(4, 3, dtype=dtype, device="openreg").bernoulli_(p), result)
    # As on CUDA, the probabilities may come from the CPU.
    assert torch.ones(3, device="openreg").bernoulli_(torch.zeros(3)).sum() == 0


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_multinomial(dtype: torch.dtype, replacement: bool) -> None:
    weights = torch.tensor([[1.0, 0, 3, 4], [0, 5, 5, 0]], dtype=dtype, device="openreg").repeat(2000, 1)
    x = torch.multinomial(weights, 2, replacement).view(2000, 2, 2).cpu()
    first = x[:, :, 0]
    for row, probabilities in enumerate(([0.125, 0, 0.375, 0.5], [0, 0.5, 0.5, 0])):
        for column, p in enumerate(probabilities):
            assert abs((first[:, row] == column).double().mean().item() - p) < 0.04
    assert (x[:, 0, 0] == x[:, 0, 1]).any() == replacement


def test_multinomial_takes_any_strides_and_out() -> None:
    weights = torch.tensor([[0.0, 1], [1, 0], [0, 1]], device="openreg")
    assert torch.multinomial(weights, 3, True).tolist() == [[1] * 3, [0] * 3, [1] * 3]
    assert torch.multinomial(weights.t()[:, 1:], 2, True).tolist() == [[0, 0], [1, 1]]
    assert torch.multinomial(weights[0], 4, True).tolist() == [1] * 4
    out = torch.empty(2, 3, dtype=torch.int64, device="openreg").t()
    assert torch.multinomial(weights, 2, True, out=out) is out
    assert out.tolist() == [[1, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize("dtype", [*REAL, *INTEGRAL], ids=str)
def test_randperm(dtype: torch.dtype) -> None:
    x = torch.randperm(100, dtype=dtype, device="openreg").cpu()
    assert sorted(x.tolist()) == list(range(100))
    assert x.tolist() != list(range(100))
    assert torch.openreg.get_rng_state().view(torch.int64).tolist() == [42, 100]
    torch.openreg.manual_seed(42)
    out = torch.empty(200, dtype=dtype, device="openreg")[::2]
    assert torch.randperm(100, out=out).tolist() == x.tolist()
    assert torch.randperm(0, dtype=dtype, device="openreg").tolist() == []
    assert torch.randperm(1, dtype=dtype, device="openreg").tolist() == [0]


def test_every_permutation_is_equally_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(3000):
        order = tuple(torch.randperm(3, device="openreg").tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert all(abs(count - 500) < 100 for count in counts.values())


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_dropout_scales_what_it_keeps(dtype: torch.dtype) -> None:
    x = torch.ones(40, 50, dtype=dtype, device="openreg").t().requires_grad_()
    y = torch.nn.functional.dropout(x, 0.25)
    assert y.stride() == x.stride()
    assert torch.openreg.get_rng_state().view(torch.int64).tolist() == [42, 2000]
    kept = y.detach().cpu() != 0
    assert abs(kept.double().mean().item() - 0.75) < 0.03
    torch.testing.assert_close(y.detach().cpu(), kept.to(dtype) * torch.tensor(1 / 0.75, dtype=dtype))
    y.backward(torch.full_like(y, 2))
    torch.testing.assert_close(x.grad.cpu(), 2 * y.detach().cpu())
    assert torch.openreg.fallback_stats().keys().isdisjoint({"aten::native_dropout", "aten::native_dropout_backward"})


@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64, torch.complex128], ids=str)
def test_dropout_of_complex_numbers(dtype: torch.dtype) -> None:
    x = torch.full((200,), 2 + 4j, dtype=dtype, device="openreg")
    output, mask = torch.native_dropout(x, 0.5, True)
    assert output.tolist() == [(4 + 8j) * kept for kept in mask.tolist()]
    assert torch.ops.aten.native_dropout_backward(x, mask, 2.0).tolist() == output.tolist()


def test_dropout_does_not_depend_on_strides() -> None:
    x = torch.ones(6, 4, device="openreg")
    results = []
    for view in (
        x,
        torch.ones(4, 6, device="openreg").t(),
        torch.ones(6, 8, device="openreg")[:, ::2],
        x[:1].expand(6, 4),
    ):
        torch.openreg.manual_seed(3)
        results.append(torch.nn.functional.dropout(view, 0.5).tolist())
    assert all(result == results[0] for result in results)


def test_dropout_at_its_limits() -> None:
    x = torch.tensor([1.0, 2.0, math.nan, math.inf], device="openreg")
    for p, train, expected in ((0.0, True, [1, 1, 1, 1]), (0.5, False, [1, 1, 1, 1]), (1.0, True, [0, 0, 0, 0])):
        output, mask = torch.native_dropout(x, p, train)
        assert mask.dtype == torch.bool
        assert mask.tolist() == expected
        torch.testing.assert_close(output.cpu(), x.cpu() * torch.tensor(expected), equal_nan=True)
    output, mask = torch.native_dropout(x[:0], 0.5, True)
    assert output.numel() == mask.numel() == 0
    assert torch.ops.aten.native_dropout_backward(output, mask, 2.0).numel() == 0


def test_dropout_has_a_second_derivative() -> None:
    x = torch.rand(5, dtype=torch.float64, device="openreg", requires_grad=True)

    def seeded(t: Tensor) -> Tensor:
        torch.openreg.manual_seed(1)
        return torch.nn.functional.dropout(t, 0.5).square()

    assert torch.autograd.gradcheck(seeded, (x,))
    assert torch.autograd.gradgradcheck(seeded, (x,))


def test_no_random_operator_falls_back() -> None:
    half = torch.full((3,), 0.5, device="openreg")
    torch.openreg.set_fallback_policy("error")
    try:
        for draw, dtypes in FILLS.values():
            for dtype in dtypes:
                draw(torch.empty(3, dtype=dtype, device="openreg"))
        torch.randperm(5, device="openreg")
        torch.nn.functional.dropout(half, 0.5)
        torch.bernoulli(half)
        torch.normal(half, half)
        for with_replacement in (False, True):
            torch.multinomial(half, 2, with_replacement)
    finally:
        torch.openreg.set_fallback_policy("all")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.uniform_(2, 1), r"uniform_ expects to return a \[from, to\) range, but found from=2 > to=1"),
        (lambda t: t.normal_(0, -1), "normal expects std >= 0.0, but found std -1"),
        (lambda t: torch.normal(t, -t - 1), "normal expects all elements of std >= 0.0"),
        (lambda t: t.exponential_(0), "exponential_ expects lambda > 0.0, but found lambda=0"),
        (lambda t: t.long().exponential_(), "dtype must be a floating point but you specified (Long|long int)"),
        (lambda t: t.cauchy_(0, 0), "cauchy_ expects sigma > 0.0, but found sigma=0"),
        (lambda t: t.log_normal_(0, 0), "log_normal_ expects std > 0.0, but found std=0"),
        (lambda t: t.geometric_(1), r"geometric_ expects p to be in \(0, 1\), but got p=1"),
        (lambda t: t.random_(3, 3), "random_ expects 'from' to be less than 'to', but got from=3 >= to=3"),
        (lambda t: t.char().random_(200), "to - 1 is out of bounds for signed char"),
        (lambda t: t.bernoulli_(1.5), r"bernoulli_ expects p to be in \[0, 1\], but got p=1.5"),
        (
            lambda t: t.bernoulli_(torch.ones(2, 3, device=t.device)),
            r"expand\(.*\[2, 3\]}, size=\[3\]\): the number of sizes provided",
        ),
        (lambda t: torch.multinomial(t - 1, 2, True), "encountering probability entry < 0"),
        (lambda t: torch.multinomial(t + math.inf, 2, True), "encountering probability entry = infinity or NaN"),
        (lambda t: torch.multinomial(t * 0, 2, True), "sum of probabilities <= 0"),
        (lambda t: torch.multinomial(t, 4), "cannot sample n_sample > prob_dist.size"),
        (
            lambda t: torch.multinomial(t.long(), 2),
            "multinomial only supports floating-point dtypes for input, got: Lo",
        ),
        (lambda t: torch.randperm(-1, device=t.device), "n must be non-negative, got-1|negative dimension -1"),
        (lambda t: torch.randperm(3000, dtype=torch.half, device=t.device), "n cannot be greater than 2049 for Half"),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_arguments_are_refused_as_on_the_cpu(call: Callable[[Tensor], object], message: str, device: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(torch.zeros(3, device=device))


@pytest.mark.parametrize("name", ["normal_", "log_normal_", "geometric_", "random_", "bernoulli_"])
def test_dtypes_without_the_distribution_are_named(name: str) -> None:
    draw, _ = FILLS[name]
    with pytest.raises(NotImplementedError, match=f"\"{name}\" not implemented for 'UInt32'"):
        draw(torch.empty(2, dtype=torch.uint32, device="openreg"))


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_permutations_of_other_dtypes_are_refused(count: int, device: str) -> None:
    for dtype, name in ((torch.uint16, "UInt16"), (torch.bool, "Bool"), (torch.complex64, "ComplexFloat")):
        with pytest.raises(NotImplementedError, match=f"\"randperm\" not implemented for '{name}'"):
            torch.randperm(count, dtype=dtype, device=device)


def test_a_wrong_probability_is_refused() -> None:
    x = torch.empty(3, device="openreg")
    for wrong in (-0.5, 1.5, math.nan):
        with pytest.raises(RuntimeError, match=r"bernoulli_ expects every element of p to be in \[0, 1\]"):
            x.bernoulli_(torch.tensor([0.5, wrong, 0.5], device="openreg"))
    with pytest.raises(RuntimeError, match="bernoulli_ expects p to be of a floating point dtype, got Long"):
        x.bernoulli_(torch.ones(3, dtype=torch.int64, device="openreg"))


def test_dropout_refuses_what_it_cannot_scale() -> None:
    x = torch.ones(3, device="openreg")
    with pytest.raises(RuntimeError, match=r"the probability of dropout lies between 0 and 1, got 1\.5"):
        torch.native_dropout(x, 1.5, True)
    with pytest.raises(RuntimeError, match="takes a floating point or complex tensor, got Long"):
        torch.native_dropout(x.long(), 0.5, True)
    with pytest.raises(RuntimeError, match=r"gradient's sizes, \[3\] on openreg:0, got Bool \[2\] on openreg:0"):
        torch.ops.aten.native_dropout_backward(x, x[:2].bool(), 2.0)
    with pytest.raises(RuntimeError, match=r"got Float \[3\] on openreg:0"):
        torch.ops.aten.native_dropout_backward(x, x, 2.0)


@pytest.mark.parametrize(
    "draw",
    [
        lambda t, g: t.uniform_(generator=g),
        lambda t, g: t.normal_(generator=g),
        lambda t, g: t.exponential_(generator=g),
        lambda t, g: t.random_(10, generator=g),
        lambda t, g: t.bernoulli_(0.5, generator=g),
        lambda t, g: torch.bernoulli(t.fill_(0.5), generator=g),
        lambda t, g: t.geometric_(0.5, generator=g),
        lambda t, g: torch.randperm(8, generator=g, device="openreg"),
        lambda t, g: torch.multinomial(t.fill_(1), 6, True, generator=g),
        lambda t, g: torch.multinomial(t.fill_(1), 6, False, generator=g),
        lambda t, g: torch.normal(t.fill_(1), t, generator=g),
    ],
)
def test_a_generator_is_used_and_the_default_one_left_alone(
    draw: Callable[[Tensor, torch.Generator], Tensor],
) -> None:
    def values(seed: int) -> list[float]:
        x = torch.empty(8, device="openreg")
        return draw(x, torch.Generator("openreg").manual_seed(seed)).tolist()

    assert values(1) == values(1)
    assert values(1) != values(2)
    assert torch.openreg.get_rng_state().view(torch.int64).tolist() == [42, 0]
    for other in ("cpu", *DEVICES[1:]):
        with pytest.raises(
            RuntimeError, match=f"on openreg:0 needs a generator of that device, got one of {other}|Expe"
        ):
            draw(torch.empty(8, device="openreg"), torch.Generator(other))


def test_threads_draw_disjoint_numbers() -> None:
    drawn_numbers: list[Tensor] = []

    def draw() -> None:
        for _ in range(50):
            x = torch.empty(20, dtype=torch.int64, device="openreg")
            drawn_numbers.append(x.random_(-(2**63), None).cpu())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = sorted(torch.cat(drawn_numbers).tolist())
    torch.openreg.manual_seed(42)
    whole = torch.empty(4000, dtype=torch.int64, device="openreg").random_(-(2**63), None)
    assert together == sorted(whole.tolist())


@pytest.mark.needs("simulator")
def test_launch_modes_draw_the_same_numbers(run_process: RunProcess) -> None:
    code = """
        import torch
        torch.manual_seed(3)
        for n in (7, 30_000):
            a, b, c, d, e = (torch.empty(n, device="openreg") for _ in range(5))
            draws = [a.uniform_(), b.normal_(), c.exponential_(), d.random_(), e.bernoulli_(0.5)]
            draws.append(torch.randperm(n, device="openreg"))
            print([hash(tuple(t.cpu().tolist())) for t in draws])
        print(torch.openreg.get_rng_state().tolist())
    """
    runs = [run_process(code, OPENREG_LAUNCH=mode) for mode in ("auto", "async", "inline")]
    assert [run.returncode for run in runs] == [0, 0, 0], [run.stderr for run in runs]
    assert len({run.stdout for run in runs}) == 1
    assert runs[0].stdout.count("[") == 3


def test_checkpoint_repeats_dropout() -> None:
    from torch.utils.checkpoint import checkpoint

    masks: list[list[float]] = []

    def block(x: Tensor) -> Tensor:
        y = torch.nn.functional.dropout(x, 0.5)
        masks.append(y.detach().tolist())
        return y * y

    for use_reentrant in (True, False):
        masks.clear()
        x = torch.ones(64, device="openreg", requires_grad=True)
        checkpoint(block, x, use_reentrant=use_reentrant).sum().backward()
        assert len(masks) == 2
        assert masks[0] == masks[1]


def test_a_compiled_checkpoint_repeats_dropout(run_process: RunProcess) -> None:
    result = run_process("""
        import torch
        from torch.utils.checkpoint import checkpoint
        def block(x):
            return torch.nn.functional.dropout(x, 0.5).square()
        def step(x):
            return checkpoint(block, x, use_reentrant=False)
        compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
        for seed in (1, 2):
            torch.manual_seed(seed)
            x = torch.ones(256, device="openreg", requires_grad=True)
            y = compiled(x)
            y.sum().backward()
            assert torch.equal(x.grad, 2 * y)
            assert 80 < (y != 0).sum().item() < 176
        print("done")
    """)
    assert result.stdout == "done\n", result.stderr


def test_a_sharded_tensor_has_the_numbers_of_the_whole(run_process: RunProcess) -> None:
    code = """
        import torch, torch.distributed as dist
        from torch.distributed.tensor import Shard, rand
        from torch.distributed.tensor._random import manual_seed
        from torch.testing._internal.distributed.fake_pg import FakeStore
        torch.manual_seed(7)
        whole = torch.rand(8, 4, device="openreg")
        dropped = torch.nn.functional.dropout(whole, 0.5)
        for rank in range(4):
            dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=4)
            mesh = dist.device_mesh.init_device_mesh("openreg", (4,))
            manual_seed(7, mesh)
            mine = slice(2 * rank, 2 * rank + 2)
            shard = rand(8, 4, device_mesh=mesh, placements=[Shard(0)])
            assert torch.equal(shard.to_local().cpu(), whole[mine].cpu())
            assert torch.openreg.get_rng_state().view(torch.int64).tolist() == [7, 32]
            assert torch.equal(torch.nn.functional.dropout(shard, 0.5).to_local().cpu(), dropped[mine].cpu())
            dist.destroy_process_group()
        print("done")
    """
    finished = run_process(code)
    assert finished.stdout == "done\n", finished.stderr


def test_geometric_with_a_probability_that_rounds_to_one() -> None:
    assert torch.empty(100, device="openreg").geometric_(0.99999999).tolist() == [1.0] * 100
