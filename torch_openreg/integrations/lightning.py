"""Lightning: `Trainer(accelerator="openreg", strategy="openreg")`, the same for Fabric, and several processes."""

from __future__ import annotations

from torch_openreg.integrations import _library


# LITERALINCLUDE START: lightning-register
def register() -> None:
    """Registers the accelerator `openreg` and the strategies `openreg` and `openreg_ddp`, for Trainer and Fabric.

    Idempotent. It replaces no function of Lightning: its registries take all that is needed.

    Raises:
        ImportError: if lightning is missing or too old. The package pytorch_lightning has classes of its own, and none
            of these are registered there.
    """
    _library.require("lightning", "2.5")
    from torch_openreg.integrations import _lightning

    for registry, name, entry in _lightning.entries():
        if name not in registry:
            registry.register(name, entry, description=entry.__doc__ or "")


def unregister() -> None:
    """Removes what `register()` has registered. Idempotent."""
    _library.require("lightning", "2.5")
    from torch_openreg.integrations import _lightning

    for registry, name, _entry in _lightning.entries():
        if name in registry:
            registry.remove(name)


# LITERALINCLUDE END: lightning-register
