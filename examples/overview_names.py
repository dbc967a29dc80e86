"""Which names can be registered and used, and what a registration before the name leads to.

    python examples/overview_names.py

Each group of statements runs in a process of its own, because a name lasts as long as the process.
"""

from __future__ import annotations

import os

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # otherwise `import torch` would register a name

import torch  # noqa: F401 - for the statements below

GROUPS = [
    *(
        (f'torch.utils.rename_privateuse1_backend("{name}")', f'torch.device("{name}")')
        for name in ("acme", "acme_npu", "cuda", "Acme", "acme2", "acme-npu")
    ),
    ('torch._register_device_module("acme", object())',),
    ("torch.utils.generate_methods_for_privateuse1_backend()", "torch.ones(2).is_privateuseone"),
    (
        'torch.utils.rename_privateuse1_backend("acme")',
        "torch.utils.generate_methods_for_privateuse1_backend()",
        "torch.ones(2).is_acme",
        "torch.utils.generate_methods_for_privateuse1_backend()",
    ),
]


def outcome(statement: str) -> str:
    """Runs one statement and says how it ends."""
    try:
        value = eval(statement)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).split(' but got')[0]}"
    return "no error" if value is None else repr(value)


def main() -> None:
    """Prints each statement and how it ends."""
    for group in GROUPS:
        child = os.fork()
        if child == 0:
            print("-- a new process")
            for statement in group:
                print(f"{statement}\n   {outcome(statement)}", flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
