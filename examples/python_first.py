"""Runs statements with the backend of examples/python_backend, and prints what each of them gives.

    python examples/python_first.py uncompiled 'torch.ones(2, device="remote") + 1'

The first argument is the base: `uncompiled`, which is Python only, `compiled`, whose C++ is compiled first, or `both`,
which shows where they differ. Each further argument is one statement, which can use `torch`, `torch_remote`, the device
`remote`, and `gradients_agree` and `trained` of this file. `sizes` instead of a base lists the files and how many lines
they have.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

# A process has one backend behind PrivateUse1, here not the installed one.
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch

FOLDER = Path(__file__).parent / "python_backend"
HOST = "memory.py devices.py random.py calls.py kernels.py answers.py module.py base.py __init__.py"
FILES = {
    "the device": ("torch_remote/device", ["channel.py", "wire.py", "memory.py", "process.py"]),
    "the host": ("torch_remote", HOST.split()),
    "the base without C++": ("torch_remote", ["uncompiled.py"]),
    "the base with C++": ("torch_remote", ["compiled.py"]),
    "its C++": ("csrc", ["glue.h", "glue.cpp", "allocator.cpp", "guard.cpp", "hooks.cpp"]),
    "the compiler": (".", ["glue.py"]),
    "what `import torch` calls": (".", ["torch_remote_autoload.py"]),
}


def sizes() -> None:
    """Prints how long the files are, without comments and blank lines."""
    for part, (folder, names) in FILES.items():
        lengths = []
        for name in names:
            lines = map(str.strip, (FOLDER / folder / name).read_text(encoding="utf-8").splitlines())
            lengths.append(sum(bool(line) and not line.startswith(("# ", "//")) for line in lines))
        listed = ", ".join(f"{name} {length}" for name, length in zip(names, lengths, strict=True))
        print(textwrap.fill(f"{part}, {sum(lengths)} lines: {listed}", 96, subsequent_indent="   "))


def gradients_agree(module: torch.nn.Module, x: torch.Tensor) -> bool:
    """Whether the gradients of a module's parameters are the same on the CPU and on the device, to five digits.

    Sums may be added in another order, so a gradient near zero is compared with those near one.
    """

    def gradients(device: str) -> Iterator[torch.Tensor]:
        results = module.to(device)(x.to(device))
        first = results[0] if isinstance(results, tuple) else results
        return (one.cpu() for one in torch.autograd.grad(first.square().sum(), list(module.parameters())))

    return all(
        torch.allclose(*pair, rtol=1e-5, atol=1e-5) for pair in zip(gradients("cpu"), gradients("remote"), strict=True)
    )


def trained(optimizer: str, device: str) -> torch.Tensor:
    """The parameters of a perceptron after twenty steps, flattened, on the CPU."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    x, wanted = torch.rand(32, 8).to(device), torch.randint(2, (32,)).to(device)
    steps = getattr(torch.optim, optimizer)(model.to(device).parameters(), lr=0.01)
    for _ in range(20):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(model(x), wanted).backward()
        steps.step()
    return torch.cat([parameter.detach().cpu().flatten() for parameter in model.parameters()])


def outcomes(base: str, statements: Sequence[str]) -> list[str]:
    """Registers the backend in this process, and returns how each statement ends."""
    sys.path.insert(0, str(FOLDER))
    with tempfile.TemporaryDirectory() as folder:
        if base == "compiled":
            sys.path.insert(0, str(importlib.import_module("glue").compile_glue(Path(folder)).parent))
        importlib.import_module("torch_remote").register(base)
    outcome = importlib.import_module("fresh_process").outcome
    names: dict[str, object] = {"torch": torch, "torch_remote": sys.modules["torch_remote"]}
    names |= {"gradients_agree": gradients_agree, "trained": trained}
    return [outcome(statement, names) for statement in statements]


def compare(statements: Sequence[str]) -> Iterator[list[str]]:
    """Runs the statements on each base, in a process of its own, and yields how each statement ends there.

    Requires: this process has no registered backend and no other thread, because the others are forked.
    """
    bases = [("uncompiled", statements), ("compiled", statements)]
    with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1) as processes:
        without, with_ = processes.starmap(outcomes, bases, chunksize=1)
    for one, other in zip(without, with_, strict=True):
        yield [one] if one == other else [f"without C++: {one}", f"with C++: {other}"]


def main(base: str, *statements: str) -> None:
    """Runs the statements on a base, or on both, and prints how they end."""
    found = compare(statements) if base == "both" else ([shown] for shown in outcomes(base, statements))
    for statement, ends in zip(statements, found, strict=True):
        print(statement)
        for shown in ends:
            if shown != "no error":
                print("   " + shown.replace("\n", "\n   "))


if __name__ == "__main__":
    sizes() if sys.argv[1:] == ["sizes"] else main(*sys.argv[1:])
