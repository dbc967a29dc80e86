"""The openreg backend for PyTorch: `torch.ones(2, device="openreg")`.

Importing this package registers the backend; `import torch` imports it through the `torch.backends` entry point (see
torch_openreg_autoload.py). The import touches no device: the driver starts when a device is first used.

Raises:
    ImportError: if the installed torch is not the release that this package was built for, if another backend was
        loaded before, or if a library is missing.
"""

from torch_openreg._version_check import require_place, require_torch

require_torch()
require_place()

# ruff: noqa: E402 - the version is checked before anything that depends on it is loaded
# LITERALINCLUDE START: package-registration
import torch
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

# The C++ libraries come first. Loading them registers the guard, hooks, allocators and operators, which PyTorch expects
# to find as soon as the backend has the name below.
import torch_openreg._C  # noqa: F401 - imported for its registrations
from torch_openreg import openreg
from torch_openreg._native import load_native_kernels

load_native_kernels()

rename_privateuse1_backend("openreg")
torch._register_device_module("openreg", openreg)  # type: ignore[no-untyped-call]
generate_methods_for_privateuse1_backend(for_storage=True)
# LITERALINCLUDE END: package-registration

# LITERALINCLUDE START: package-shared-generators
# The device's generators can share their state, which PyTorch's compiler needs to replay random operators.
from torch._functorch._aot_autograd.utils import register_graphsafe_rng_device_type

register_graphsafe_rng_device_type("openreg")
# LITERALINCLUDE END: package-shared-generators

# LITERALINCLUDE START: amp-load
from torch_openreg.openreg.amp import let_higher_order_operators_through

let_higher_order_operators_through()
# LITERALINCLUDE END: amp-load

# LITERALINCLUDE START: package-compile
# Imports neither Dynamo nor Inductor: together they take longer than `import torch`.
from torch_openreg.compile.registration import register_with_compiler

register_with_compiler()
# LITERALINCLUDE END: package-compile

# LITERALINCLUDE START: distributed-load
# Collectives on the device, and distributed tensors, for torch.distributed.
from torch_openreg._distributed import register_process_groups
from torch_openreg._dtensor import register_shardings

register_process_groups()
register_shardings()
# LITERALINCLUDE END: distributed-load

# LITERALINCLUDE START: interop-load
# Tensors that other libraries and other processes read and write.
from torch_openreg._dlpack import complete_dlpack
from torch_openreg._sharing import share_storages

complete_dlpack()
share_storages()
# LITERALINCLUDE END: interop-load

# These register nothing, but without them the process could crash or hang.
from torch_openreg._exit import settle_autograd_at_exit
from torch_openreg._storage import refuse_host_access

refuse_host_access()
settle_autograd_at_exit()

# LITERALINCLUDE START: package-races
if openreg.races.WANTED:
    openreg.races.detect_races().__enter__()
# LITERALINCLUDE END: package-races
