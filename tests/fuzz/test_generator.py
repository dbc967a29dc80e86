"""Generated programs: reproducible from their seed, of all kinds, and without a finding where nothing is wrong."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
import torch

from tests.fuzz.arguments import Drawing
from tests.fuzz.attempt import attempt
from tests.fuzz.comparison import Noise, difference
from tests.fuzz.execution import Execution
from tests.fuzz.generator import Generator
from tests.fuzz.literals import Unwritable, written
from tests.fuzz.operators import OPERATORS
from tests.fuzz.overwriting import call, takes_out
from tests.fuzz.program import Program, Statement, namespace
from tests.fuzz.views import fitting
from tests.fuzz.writer import Writer


def programs(seed: int, count: int) -> list[Program]:
    return [Generator(seed, number).program() for number in range(count)]


def test_a_seed_names_a_program() -> None:
    first, again, other = programs(3, 20), programs(3, 20), programs(4, 20)
    assert first == again
    assert all(one != two for one, two in zip(first, other, strict=True))
    assert [Program.load(program.dump()) for program in first] == first


def test_all_kinds_of_lines_come() -> None:
    lines = [statement for program in programs(5, 150) for statement in program.statements]
    kinds = {
        "out=": "out=",
        "in place": "_(",
        "foreach": "_foreach_",
        "mm": "mm(",
        "as_strided": ".as_strided(",
        "expand": ".expand(",
        "unfold": ".unfold(",
        "diagonal": ".diagonal(",
        "copy": ".copy_(",
        "second device": "device=d1",
        "between devices": ".to(d1, copy=True)",
        "to the host": ".to('cpu', copy=True)",
        "resize": ".resize_(",
        "set": ".set_(",
        "empty": "(0,",
        "backward": ".backward(",
        "delete": "del ",
        "read": ".tolist(",
        "complex": "complex64",
    }
    counts = {kind: sum(text in line.code for line in lines) for kind, text in kinds.items()}
    assert all(counts.values()), counts
    assert {line.stream for line in lines} == {0, 1, 2}
    assert any(line.may_refuse for line in lines)


def test_most_lines_compute_and_some_are_refused() -> None:
    counts: Counter[bool] = Counter()
    for program in programs(6, 60):
        names = namespace(("cpu", "cpu"), {})
        for statement in program.statements:
            counts[attempt(statement.code, names) is None] += 1
    assert counts[True] > 3 * counts[False] > 0, counts


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: f"{operator.name}: {' '.join(operator.pattern)}")
def test_the_pattern_of_an_operator_makes_calls_that_the_cpu_takes(operator: Any) -> None:
    taken = 0
    for seed in range(60):
        random = Random(seed)
        writer = Writer(random, lambda _: None)
        arguments = Drawing(random, operator, "x", writer).arguments
        taken += writer.tried(call(operator.name, arguments))[0] is None
    assert taken >= 6, "hardly any of 60 calls is right"


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (3, 2), (4, 2, 3)])
def test_views_have_the_shape_that_is_asked_for(shape: tuple[int, ...]) -> None:
    tensors = {"x1": torch.arange(24).view(4, 6), "x2": torch.arange(6), "x3": torch.arange(120).view(5, 4, 6)}
    seen = 0
    for seed in range(30):
        for name, tensor in tensors.items():
            for code in fitting(Random(seed), name, tensor, shape):
                assert eval(code, dict(tensors)).shape == shape, code
                seen += 1
    assert seen > 10


def test_programs_agree_and_run_on_streams() -> None:
    lines: list[str] = []
    for program in programs(7, 60):
        finding = Execution(program, {}, say_line=lines.append).run()
        assert finding is None, (program.origin, finding)
    assert any(line.startswith("with s1: ") for line in lines)
    assert any(".wait_stream(" in line for line in lines)
    assert any(".wait_event(" in line for line in lines)
    assert any(".record_stream(" in line for line in lines)


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(6.0).view(2, 3).t(),
        torch.ones(1).expand(2, 3),
        torch.tensor([float("nan"), float("inf"), -0.1]),
        torch.tensor([complex(1, float("nan"))]),
        torch.zeros(0, 3, dtype=torch.int8),
        [1, (2.5, None), torch.float16, "name", slice(None, 2)],
    ],
    ids=str,
)
def test_a_value_is_written_as_what_gives_it(value: Any) -> None:
    again = eval(written(value), namespace(("cpu", "cpu"), {}))
    assert difference(value, again, Noise(share=1e-9)) is None, written(value)


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(Unwritable):
        written(torch.ones(2).to_sparse())
    with pytest.raises(Unwritable):
        written(object())


def test_names_are_read_from_a_line() -> None:
    line = Statement("x3, x4 = torch.max(x1[0, :], 1, out=(x2, h5))")
    assert line.names == ["x3", "x4", "x1", "x2", "h5"]
    assert line.bound == ["x3", "x4"]
    assert Statement("x1.add_(1)").bound == []
    assert takes_out("add")
    assert not takes_out("relu6")


def test_the_bits_of_one_nan_are_as_good_as_those_of_another() -> None:
    one, other = torch.tensor([2143289344, 1], dtype=torch.int32), torch.tensor([-4194304, 1], dtype=torch.int32)
    assert bool(one.view(torch.float32)[0].isnan() and other.view(torch.float32)[0].isnan())
    assert difference(one, other, Noise()) is None
    assert difference(one, torch.tensor([2139095040, 1], dtype=torch.int32), Noise()) is not None  # infinity
    assert difference(one, torch.tensor([-4194304, 2], dtype=torch.int32), Noise()) is not None
