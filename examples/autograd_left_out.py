"""The two operators that autograd needs from a backend: what users see when one is registered, and when it is left out.

Usage: autograd_left_out.py OPERATOR (registered | left-out)
"""

from __future__ import annotations

import sys
import warnings

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.functional import cross_entropy

# PyTorch imports this at the first forward-mode derivative, and the import itself warns, in each release of something
# else.
with warnings.catch_warnings(action="ignore"):
    import torch._decomp.decompositions_for_jvp


# LITERALINCLUDE START: autograd-left-out-model
class NextWord(nn.Module):
    """Predicts the next word. Its embedding and its output layer share one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.write = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
        self.write.weight = self.read.weight

    def forward(self, words: Tensor) -> Tensor:
        """Scores for each of the six words, one row for each word given."""
        scores: Tensor = self.write(self.read(words))
        return scores


def trained(device: str, *, optimizer_first: bool) -> str:
    """The loss at each of four steps, and whether the weights are still tied."""
    torch.manual_seed(0)
    model = NextWord()
    if optimizer_first:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        model.to(device)
    else:
        model.to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    words = torch.arange(6, device=device)
    for _ in range(4):
        loss = cross_entropy(model(words), words.roll(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4f}")
    return f"{' '.join(losses)}, tied: {model.write.weight is model.read.weight}"


# LITERALINCLUDE END: autograd-left-out-model


# LITERALINCLUDE START: autograd-left-out-identity
def moved() -> None:
    """Prints how a model trains after it was moved, and whether a parameter can be moved by hand."""
    print("on the CPU:           ", trained("cpu", optimizer_first=True))
    print("optimizer, then .to():", trained("openreg", optimizer_first=True))
    print(".to(), then optimizer:", trained("openreg", optimizer_first=False))
    parameter = nn.Parameter(torch.ones(2))
    try:
        parameter.data = torch.ones(2, device="openreg")
    except RuntimeError as error:
        print("parameter.data = ...:  ", error)
    else:
        print("parameter.data = ...:  ", parameter)


def pytorchs_answer(tensor: Tensor, source: Tensor) -> bool:
    """What PyTorch says for a backend that has not registered _has_compatible_shallow_copy_type."""
    answer: bool = torch.ops.aten._has_compatible_shallow_copy_type.default.decompose(tensor, source)
    return answer


# LITERALINCLUDE END: autograd-left-out-identity


# LITERALINCLUDE START: autograd-left-out-zeros
def differentiated() -> None:
    """Prints the forward derivative of x * y in the direction of x alone: y has no tangent."""
    for device in ("cpu", "openreg"):
        x, y = torch.tensor([torch.inf, 2.0], device=device), torch.tensor([3.0, 3.0], device=device)
        with forward_ad.dual_level():
            product = forward_ad.make_dual(x, torch.ones_like(x)) * y
            print(f"{device}:", forward_ad.unpack_dual(product).tangent.tolist())


def zeros_in_memory(size: list[int], device: torch.device, **options: object) -> Tensor:
    """What a CPU fallback makes of _efficientzerotensor: zeros in memory, copied to the device."""
    return torch.zeros(size).to(device)


# LITERALINCLUDE END: autograd-left-out-zeros

USES = {"_has_compatible_shallow_copy_type": moved, "_efficientzerotensor": differentiated}
STAND_INS = {
    ("_has_compatible_shallow_copy_type", "AutogradPrivateUse1"): pytorchs_answer,
    ("_has_compatible_shallow_copy_type", "PrivateUse1"): pytorchs_answer,
    ("_efficientzerotensor", "PrivateUse1"): zeros_in_memory,
}


def main() -> None:
    """Replaces each kernel of the operator if it is to be left out, and prints the outcome of its uses."""
    operator, kernels = sys.argv[1:]
    library = torch.library.Library("aten", "IMPL")
    for (name, key), stand_in in STAND_INS.items():
        if name == operator and kernels == "left-out":
            with warnings.catch_warnings(action="ignore"):  # about replacing a kernel
                library.impl(name, stand_in, key)
    USES[operator]()


if __name__ == "__main__":
    main()
