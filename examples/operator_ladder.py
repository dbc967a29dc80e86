"""The operators that a backend needs first: what each task needs beyond the tasks before it, found by doing without.

    python examples/operator_ladder.py               a device without any CPU fallback
    python examples/operator_ladder.py --fallback    the same tasks where operators without a kernel run on the CPU
    python examples/operator_ladder.py "copy" "print"    some rungs only, in this order

All kernels of the backend are removed (operator_ladder.cpp), and a task is run. Each failure names an operator, which
is restored before the task is run again, each time in a process of its own.
"""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Set
from functools import partial
from pathlib import Path

import torch
import torch._dynamo  # imported by an optimizer's first step: here once, not in each fork
from stubs_alone import compiled  # type: ignore[import-not-found]  # beside this script
from torch import nn

Task = Callable[[str], object]


# LITERALINCLUDE START: ladder-tasks
def numbers(device: str, *shape: int) -> torch.Tensor:
    """Small numbers of both signs, made on the CPU."""
    return (torch.arange(float(torch.Size(shape).numel())).reshape(shape) - 2).to(device)


def create(device: str) -> object:
    """A tensor that is never read."""
    return torch.empty(2, 3, device=device).shape


def copy(device: str) -> object:
    """To the device and back."""
    return numbers(device, 2, 3)


def item(device: str) -> object:
    """One number, read by Python."""
    return numbers(device, 1).item()


def view(device: str) -> object:
    """Other shapes of the same memory, and what a write through one of them changes."""
    x = numbers(device, 2, 3)
    x.t()[1].copy_(x[1, :2])
    return [x, x.view(3, 2), x[:, 1:], x.unsqueeze(0).expand(2, 2, 3), x.t().reshape(6), x.t().reshape(3, 1, 2)]


def show(device: str) -> object:
    """What print() prints."""
    return [str(numbers(device, 2, 3)), str(numbers(device, 4).int())]


def arithmetic(device: str) -> object:
    """Four operations, with tensors and with numbers."""
    x = numbers(device, 2, 3)
    total = torch.add(x, x[0], out=torch.empty(0, device=device))
    return [total, 1 - x, x * 2, x / x[:, :1], -x, x.clone().add_(1), torch.zeros(2, device=device)]


def reduce_and_compare(device: str) -> object:
    """Reductions and comparisons."""
    x = numbers(device, 2, 3)
    return [x.sum(), x.mean(0), x.max(), x.argmax(1), x > 0, (x == x[0]).all(), torch.where(x > 0, x, 0 * x)]


def index(device: str) -> object:
    """Elements selected by another tensor."""
    x, rows = numbers(device, 3, 2), torch.tensor([2, 0]).to(device)
    x[rows, 1] = x[rows, 0]
    return [x[rows], x[x > 0], torch.cat([x, x])]


def multiply(device: str) -> object:
    """Matrix products."""
    x = numbers(device, 2, 3)
    return [x @ x.t(), nn.functional.linear(x, x, x[:, 0])]


def backward(device: str) -> object:
    """The derivative of two layers."""
    x = numbers(device, 2, 3).requires_grad_()
    nn.functional.linear(nn.functional.linear(x, x.detach()).relu(), x[:1, :2]).mean().backward()
    return x.grad


def step(device: str, optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD) -> object:
    """Two steps of an optimizer."""
    x = numbers(device, 2, 3).requires_grad_()
    trained = optimizer([x], lr=0.1)
    for _ in range(2):
        trained.zero_grad()
        x.sum().backward()
        trained.step()
    return x


def train(device: str) -> object:
    """A classifier that is created on the device and trained."""
    layers = nn.Sequential(nn.Linear(3, 4, device=device), nn.ReLU(), nn.Linear(4, 2, device=device))
    layers.load_state_dict({name: numbers("cpu", *value.shape) for name, value in layers.state_dict().items()})
    trained = torch.optim.Adam(layers.parameters(), lr=0.1)
    for _ in range(2):
        trained.zero_grad()
        nn.functional.cross_entropy(layers(numbers(device, 2, 3)), torch.tensor([0, 1]).to(device)).backward()
        trained.step()
    return list(layers.parameters())


def save_and_load(device: str) -> object:
    """Parameters saved to a file and loaded again."""
    file = io.BytesIO()
    torch.save({"weight": numbers(device, 2, 3).t()}, file)
    file.seek(0)
    return torch.load(file)["weight"]


RUNGS: dict[str, Task] = {
    "create": create,
    "copy": copy,
    "item()": item,
    "views": view,
    "arithmetic": arithmetic,
    "reduce and compare": reduce_and_compare,
    "print": show,
    "index and join": index,
    "matrix product": multiply,
    "backward": backward,
    "SGD": step,
    "Adam": partial(step, optimizer=torch.optim.Adam),
    "train a model": train,
    "save and load": save_and_load,
}
# LITERALINCLUDE END: ladder-tasks


def on_cpu(value: object) -> object:
    """Tensors as lists of numbers, and text without the device, so that results can be compared."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().tolist()
    if isinstance(value, str):
        return re.sub(r", device='openreg:0'", "", value)
    return [on_cpu(each) for each in value] if isinstance(value, list) else value


def load_stand_ins() -> None:
    """Compiles and loads operator_ladder.cpp."""
    with tempfile.TemporaryDirectory() as folder:
        torch.ops.load_library(compiled(Path(__file__).with_name("operator_ladder.cpp"), Path(folder)))


def in_a_process_of_its_own(function: Callable[[], str]) -> str:
    """What the function returns in a fork, where it may remove kernels for good, or the signal that killed the fork."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(writer, function().encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return f"the process is killed by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else text


# LITERALINCLUDE START: ladder-attempt
KERNELS = {
    name for name in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1") if name.startswith("aten::")
}


def attempt(task: Task, present: Set[str], fallback: bool) -> str:
    """Runs a task on a device that has only these operators. Returns the outcome."""
    if fallback:
        torch.ops.operator_ladder.absent_with_fallback(sorted(KERNELS - present))
    else:
        torch.ops.operator_ladder.absent(sorted(KERNELS - present))
        # An operator that has no kernel in this backend either is restored as what it is here, a fallback.
        torch.openreg.set_fallback_policy("listed", ops=sorted(present - KERNELS))
    try:
        here = on_cpu(task("openreg"))
    except RuntimeError as error:
        name = re.search(r"aten::[\w.]+", str(error))
        return f"lacks {name.group()}" if name else str(error)
    done = f"done, on the CPU: {count_fallbacks()}" if fallback else "done"
    return done if here == on_cpu(task("cpu")) else f"{here} is wrong"


# LITERALINCLUDE END: ladder-attempt


def count_fallbacks() -> str:
    """The operators that fell back, with the number of calls if it is not one."""
    stats = torch.openreg.fallback_stats().items()
    return " ".join(short(name) + (f"({calls})" if calls > 1 else "") for name, calls in stats) or "nothing"


def short(name: str) -> str:
    """An operator without its namespace; with a star if this backend has no kernel for it."""
    return name.removeprefix("aten::") + ("" if name in KERNELS else "*")


# LITERALINCLUDE START: ladder-climb
def climb(rungs: dict[str, Task], fallback: bool) -> None:
    """Prints the operators that each rung adds to those of the rungs below it."""
    present: set[str] = set()
    for rung, task in rungs.items():

        def outcome(operators: Set[str], task: Task = task) -> str:
            return in_a_process_of_its_own(lambda: attempt(task, operators, fallback))

        added = []
        while (said := outcome(present)).startswith("lacks "):
            added.append(said.removeprefix("lacks "))
            present.add(added[-1])
        needed = [name for name in added if not outcome(present - {name}).startswith("done")]
        present -= set(added) - set(needed)
        print(f"{rung}: {len(needed)} more, {len(present)} in all")
        show_names(" ".join(map(short, needed)))
        show_names(said.removeprefix("done").removeprefix(", "))


# LITERALINCLUDE END: ladder-climb


def show_names(names: str, label: str = "") -> None:
    """Prints names, indented, in lines of a page's width."""
    if names:
        print(
            textwrap.fill(label + names, 118, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
        )


if __name__ == "__main__":
    chosen = [argument for argument in sys.argv[1:] if argument != "--fallback"]
    load_stand_ins()
    climb({rung: RUNGS[rung] for rung in chosen or RUNGS}, fallback="--fallback" in sys.argv)
