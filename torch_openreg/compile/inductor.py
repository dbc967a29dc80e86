"""The names that Inductor looks up on the device module, each with the class that stands for it.

Imported when Inductor first looks one up, which is when it first compiles anything, for whatever device; never before.
"""

from __future__ import annotations

from torch._inductor.codegen.common import register_device_op_overrides

from torch_openreg.compile.operations import Operations
from torch_openreg.compile.patches import patch_inductor
from torch_openreg.compile.refused import refusing


# LITERALINCLUDE START: compile-inductor-classes
def classes() -> dict[str, type]:
    """The class of each name. It never raises: Inductor compiles for the CPU, too, and ignores a RuntimeError here."""
    register_device_op_overrides("openreg", Operations())  # first: Inductor asks for it before the classes
    try:
        patch_inductor()
    except RuntimeError as error:
        return refusing(str(error))
    # Not before: what they import of Inductor may be missing in a release that the patches refuse.
    from torch_openreg.compile.cache_key import depend_on_sources
    from torch_openreg.compile.cpp_wrapper import CppWrapper
    from torch_openreg.compile.refused import FxWrapperCodegen
    from torch_openreg.compile.scheduling import Scheduling
    from torch_openreg.compile.wrapper import Wrapper

    depend_on_sources()
    return {
        "Scheduling": Scheduling,
        "PythonWrapperCodegen": Wrapper,
        "CppWrapperCodegen": CppWrapper,
        "WrapperFxCodegen": FxWrapperCodegen,
    }


CLASSES = classes()
# LITERALINCLUDE END: compile-inductor-classes
