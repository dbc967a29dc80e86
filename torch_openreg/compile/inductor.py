"""The names that Inductor looks up on the device module, each with the class that stands for it.

Imported when Inductor first looks one up, which is when it first compiles anything; never before.
"""

from __future__ import annotations

from torch._inductor.codegen.common import register_device_op_overrides

from torch_openreg.compile.cache_key import depend_on_sources
from torch_openreg.compile.cpp_wrapper import CppWrapper
from torch_openreg.compile.dynamo import register_each_device
from torch_openreg.compile.operations import Operations
from torch_openreg.compile.patches import patch_inductor
from torch_openreg.compile.refused import FxWrapperCodegen
from torch_openreg.compile.scheduling import Scheduling
from torch_openreg.compile.wrapper import Wrapper

# LITERALINCLUDE START: compile-inductor-classes
patch_inductor()
register_each_device()
depend_on_sources()
register_device_op_overrides("openreg", Operations())

CLASSES: dict[str, type] = {
    "Scheduling": Scheduling,
    "PythonWrapperCodegen": Wrapper,
    "CppWrapperCodegen": CppWrapper,
    "WrapperFxCodegen": FxWrapperCodegen,
}
# LITERALINCLUDE END: compile-inductor-classes
