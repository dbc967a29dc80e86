"""A backend without random operators of its own: PyTorch's CPU fallback draws, from the CPU's generator."""

from __future__ import annotations

import warnings

import torch


# LITERALINCLUDE START: random-left-out
def uniform_on_the_cpu(
    self: torch.Tensor, low: float = 0, high: float = 1, *, generator: torch.Generator | None = None
) -> torch.Tensor:
    """What at::native::cpu_fallback does with uniform_: a generator is not a tensor, so it is passed on as it is."""
    host = torch.empty(self.shape, dtype=self.dtype)
    cpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    torch.ops.aten.uniform_.default.redispatch(cpu, host, low, high, generator=generator)
    return self.copy_(host)


def main() -> None:
    """Replaces the kernel with the function above, and seeds and draws."""
    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings(action="ignore"):  # about replacing a kernel
        library.impl("uniform_", uniform_on_the_cpu, "PrivateUse1")

    draws = []
    for _ in range(2):
        torch.openreg.manual_seed_all(1)
        draws.append(torch.rand(3, device="openreg").tolist())
    print("the same seed of the device, the same numbers:", draws[0] == draws[1])

    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    torch.rand(3, device="openreg")
    print("drawing on the device leaves the CPU's numbers alone:", torch.equal(torch.rand(3), expected))

    try:
        torch.rand(3, device="openreg", generator=torch.Generator("openreg"))
    except RuntimeError as error:
        print(f"a generator of the device: {error}")


# LITERALINCLUDE END: random-left-out

if __name__ == "__main__":
    main()
