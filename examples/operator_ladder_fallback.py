"""What happens to an operator that is left to a boxed fallback: the right result beside those of two fallbacks.

    python examples/operator_ladder_fallback.py GROUP

For each operator one snippet runs on the CPU, which is right; then on the device with PyTorch's own fallback,
at::native::cpu_fallback, as the kernel of only that operator; then with this backend's fallback in its place. Each
runs in a process of its own. Where the unmodified backend differs from the CPU, its result is printed as well.
"""

from __future__ import annotations

import os
import resource
import sys
import warnings
from collections.abc import Callable
from functools import partial

import torch
from operator_ladder import (  # type: ignore[import-not-found]  # beside this script
    in_a_process_of_its_own,
    load_stand_ins,
    on_cpu,
)
from torch.nn import functional

SGD = "weight_decay=0, momentum=0, lr=0.5, dampening=0, nesterov=False, maximize=False, is_first_step=False"
AGAIN = "seed(7); a = {0}; seed(7); torch.equal(a, {0})"
STATISTICS = "mean, var = torch.zeros(2, device=d), torch.ones(2, device=d); {}; [mean, var]"
GROUPS: dict[str, list[tuple[str, str]]] = {
    "memory": [
        ("set_.source_Tensor", "y = torch.empty(0, device=d).set_(x); y.zero_(); x"),
        ("is_set_to", "x.is_set_to(x.detach())"),
        ("view", "x.view(2, 2).zero_(); x"),
        ("unfold", "x.unfold(0, 2, 2).zero_(); x"),
        ("view_as_complex", "torch.view_as_complex(x.view(2, 2)).zero_(); x"),
        ("detach", "x.detach().zero_(); x"),
        ("as_strided", "x[::2].zero_(); x"),
        ("resize_", "x.resize_(2)"),
        ("empty_strided", "x.clone()"),
        ("_copy_from", "x.clone()"),
        ("set_.source_Storage", "torch.empty(0, device=d).set_(x.untyped_storage())"),
    ],
    "random": [
        ("uniform_", AGAIN.format("torch.rand(9, device=d)")),
        ("normal_", AGAIN.format("torch.randn(9, device=d)")),
        ("normal_", "before = state(); x.normal_(); torch.equal(before, state())"),
        (
            "normal_",
            "before = torch.get_rng_state(); x.normal_(); d == 'cpu' or torch.equal(before, torch.get_rng_state())",
        ),
        ("random_.from", AGAIN.format("torch.randint(2, 99, (9,), device=d)")),
        ("bernoulli_.float", AGAIN.format("torch.zeros(99, device=d).bernoulli_()")),
        ("randperm.generator_out", AGAIN.format("torch.randperm(99, device=d)")),
        ("multinomial", AGAIN.format("torch.multinomial(torch.ones(99, device=d), 9)")),
        ("poisson", AGAIN.format("torch.poisson(torch.full((9,), 50.0, device=d))")),
        ("native_dropout", AGAIN.format("F.dropout(torch.ones(99, device=d))")),
        ("normal_", "torch.randn(2, device=d, generator=torch.Generator(d)).shape"),
    ],
    "schema": [
        ("native_batch_norm", STATISTICS.format("F.batch_norm(x.view(2, 2), mean, var, training=True)")),
        ("native_batch_norm", STATISTICS.format("F.instance_norm(x.view(1, 2, 2), mean, var)")),
        ("batch_norm_update_stats", STATISTICS.format("torch.batch_norm_update_stats(x.view(2, 2), mean, var, 0.1)")),
        (
            "_batch_norm_with_update",
            STATISTICS.format("torch.ops.aten._batch_norm_with_update(x.view(2, 2), None, None, mean, var, 0.1, 1e-5)"),
        ),
    ],
    "alias": [
        ("_foreach_add_.Scalar", "torch._foreach_add_([x, x], 1); x"),
        ("_foreach_add_.Scalar", "torch._foreach_add_([x, x.detach()], 1); x"),
        ("_foreach_add_.Scalar", "torch._foreach_add_([x[:3], x[1:]], 1); x"),
        ("_add_relu_.Tensor", "torch._add_relu_(x[1:], x[:-1])"),
        ("angle.out", "torch.angle(x[1:], out=x[:-1])"),
    ],
    "device": [
        ("floor_divide", "(7 // x).device == x.device"),
        ("where.self", "torch.where(torch.tensor(True), x, 0).device == x.device"),
        ("_add_relu.Tensor", "torch._add_relu(x, torch.ones(4))"),
    ],
    "right": [
        ("_local_scalar_dense", "x[1].item()"),
        ("empty.memory_format", "torch.empty(2, device=d).device == x.device"),
        ("fill_.Scalar", "x[::2].fill_(0); x"),
        ("_add_relu_.Tensor", "torch._add_relu_(x, x)"),
        ("angle.out", "torch.angle(-x, out=torch.empty(0, device=d))"),
        ("angle.out", "y = torch.zeros(8, device=d); torch.angle(-x, out=y[::2]); y"),
        ("_index_put_impl_", "x[::2].index_put_((torch.tensor([0, 0]).to(d),), x[:2], accumulate=True); x"),
        ("masked_scatter_", "x.masked_scatter_(x > 2, x + 10)"),
        ("_fused_sgd_", f"torch._fused_sgd_([x], [x.clone()], [], {SGD}); x"),
        (
            "_amp_update_scale_",
            "torch._amp_update_scale_(x[:1], torch.tensor([0], dtype=torch.int32).to(d), x[1:2], 2, 0.5, 1)",
        ),
        (
            "_native_batch_norm_legit",
            STATISTICS.format(
                "torch.ops.aten._native_batch_norm_legit(x.view(2, 2), None, None, mean, var, True, 0.1, 1e-5)"
            ),
        ),
    ],
}


# LITERALINCLUDE START: ladder-fallback-outcome
def outcome(snippet: str, device: str, replace: Callable[[], None] = lambda: None) -> str:
    """Replaces a kernel, runs a snippet, and returns what its last expression gives, or how it fails."""
    names = {
        "torch": torch,
        "F": functional,
        "d": device,
        "x": torch.tensor([1.0, 2.0, 3.0, 4.0]).to(device),
        "seed": torch.manual_seed if device == "cpu" else torch.openreg.manual_seed,
        "state": torch.get_rng_state if device == "cpu" else torch.openreg.get_rng_state,
    }
    replace()
    *statements, last = snippet.split("; ")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "openreg runs")  # each line already says that it falls back
        try:
            for statement in statements:
                exec(statement, names)
            result = repr(on_cpu(eval(last, names)))
        except RuntimeError as error:
            return f"{type(error).__name__}: {str(error).split('. ')[0].splitlines()[0]}"
    return result + (f", and a warning: {str(warned[0].message).split(', but')[0]}" if warned else "")


def with_kernel(operator: str, kernel: str, snippet: str) -> str:
    """The same on the device, in a fork, with another kernel for the operator."""

    def run() -> str:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # some snippets crash: leave no core file
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 23, 1 << 23))  # and end infinite recursion soon
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        return outcome(snippet, "openreg", lambda: getattr(torch.ops.operator_ladder, kernel)([operator]))

    said: str = in_a_process_of_its_own(run)
    return said


# LITERALINCLUDE END: ladder-fallback-outcome


def main() -> None:
    """Prints the snippets of a group, and the outcomes of each."""
    load_stand_ins()
    for operator, snippet in GROUPS[sys.argv[1]]:
        outcomes = {
            "CPU": in_a_process_of_its_own(partial(outcome, snippet, "cpu")),
            "cpu_fallback": with_kernel(operator, "pytorch_fallback", snippet),
            "own fallback": with_kernel(operator, "own_fallback", snippet),
            "as it is": in_a_process_of_its_own(partial(outcome, snippet, "openreg")),
        }
        print(f"{operator}: {snippet}")
        if len(set(outcomes.values())) == 1:
            print(f"    all: {outcomes['CPU']}")
        else:
            for name, what in outcomes.items():
                if name != "as it is" or what != outcomes["CPU"]:
                    print(f"    {name + ':':14}{what}")


if __name__ == "__main__":
    main()
