"""Makes the cache of compiled graphs depend on the sources of this package: another version generates other code.

Inductor's key contains the release of PyTorch, its configuration and the identifiers of registered passes, but nothing
of a backend outside its tree.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch._inductor.codegen.common import custom_backend_passes
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.utils import parallel_num_threads

from torch_openreg.compile.cpp_wrapper import HEADER


# LITERALINCLUDE START: compile-cache-key
class SourcesKey(CustomGraphModulePass):
    """A pass that never runs; its identifier is part of the key of each cached graph."""

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        """Changes nothing."""

    def uuid(self) -> str:
        """The digest of what code is generated from, of the header that it includes by its path, and of the threads.

        The number of threads is in Inductor's key as well, but only of graphs with tensors of the CPU.
        """
        sources = [*sorted(Path(__file__).parent.glob("*.py")), HEADER]
        contents = [source.read_bytes() for source in sources if source.is_file()]  # a build may have no header
        return hashlib.sha256(b"".join([*contents, bytes(HEADER), str(parallel_num_threads()).encode()])).hexdigest()


def depend_on_sources() -> None:
    """Adds the digest to the keys. A pass runs for the device that it is registered for, and this is none."""
    custom_backend_passes["sources of openreg"] = SourcesKey()


# LITERALINCLUDE END: compile-cache-key
