"""The names of a vendor's backend, and their substitution for ours in the texts of this repository.

All our names begin with one of three words: `openreg`, `OPENREG`, and `or` before a capital, in the names of the
driver's functions and types. The first two name the device in Python (`torch.openreg`, `torch_openreg`, the operators'
library), and, in C++ and the environment, the driver's library and headers, the namespace, macros and environment
variables. A vendor whose SDK has a library or namespace with the name of the device gives the latter another name.
"""

from __future__ import annotations

import ctypes.util
import keyword
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

from environment import Fault
from prerequisites import compiler_command

_NAME = re.compile(r"[a-z](?:[a-z_]*[a-z])?")
_PREFIX = re.compile(r"[a-z]{2,8}")
_LIBRARY = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
# The name becomes a namespace: the keywords of C++20 cannot, and `at` is PyTorch's.
_TAKEN_BY_CPP = """
alignas alignof and and_eq asm at auto bitand bitor bool break case catch char class co_await co_return co_yield compl
concept const const_cast consteval constexpr constinit continue decltype default delete do double dynamic_cast else enum
explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof static
static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned
using virtual void volatile wchar_t while xor xor_eq
"""
# What is in these is in the global namespace.
_C_HEADERS = (
    "dlfcn.h", "fcntl.h", "math.h", "poll.h", "pthread.h", "sched.h", "signal.h", "stdio.h", "stdlib.h", "string.h",
    "sys/mman.h", "sys/socket.h", "sys/stat.h", "sys/syscall.h", "sys/time.h", "sys/wait.h", "time.h", "unistd.h",
)  # fmt: skip
# Libraries that every process with PyTorch has loaded, and namespaces of PyTorch and the language other than `at`.
_TAKEN_LIBRARIES = (
    "c", "c10", "caffe2", "dl", "gomp", "m", "pthread", "pybind11", "rt", "shm", "std", "torch", "torch_cpu",
    "torch_cuda_linalg", "torch_global_deps", "torch_nvshmem", "torch_python",
)  # fmt: skip
# Namespaces inside the vendor's own, and inside those of PyTorch in which sources define something: there, the vendor's
# name would mean them. tests/build/test_vendor.py compares them with the sources.
TAKEN_NAMESPACES = (
    "accelerator", "autocast", "autograd", "c10d", "caching", "conformance", "detail", "device_code", "driver",
    "fs", "functionalization", "functorch", "impl", "indexing", "internal", "jit", "kernels", "metal", "minimal",
    "native", "opencl", "py", "sparse", "tracer", "vec", "vml",
)  # fmt: skip
# Targets that CMake makes itself, in one generator or another.
_TAKEN_BY_CMAKE = ("all", "clean", "edit_cache", "help", "install", "preinstall", "rebuild_cache")
# Devices whose package torch_<name> exists. Libraries such as accelerate take any package of that name for it, and call
# functions of it that another package lacks.
_TAKEN_PACKAGES = (
    "directml", "gcu", "mlu", "musa", "neuron", "neuronx", "npu", "ort", "rbln", "sdaa", "tpu", "xla",
)  # fmt: skip
# Prefixes of drivers whose headers a program may include together with the vendor's, and of PyTorch's macros.
_TAKEN_PREFIXES = ("at", "cu", "cuda", "hip", "sycl", "torch", "ze")
# The second alternative is the linker's pattern for all of them, in exports.map.
_DRIVER_NAME = re.compile(r"\bor(?=[A-Z][a-z]|\[A-Z\]\*)")
_DRIVER_MACRO = re.compile(r"\bOR_(?=[A-Z])")
# Operators that users call, torch.ops.openreg.swiglu: named after the device. tests/build/test_vendor.py compares them
# with the schemas.
OPERATORS = ("custom_abs", "soft_cap", "soft_cap_backward", "swiglu")
# The names that follow the library: the namespace, the driver's headers and library, macros and environment variables.
_OF_LIBRARY = re.compile(
    rf"\bnamespace openreg\b|\bopenreg::(?!(?:{'|'.join(OPERATORS)})\b)|"
    r"\bopenreg(?:_[a-z]+)*\.h\b|\blibopenreg|\blibrary openreg\b|\badd_library\\?\((?:\(\?:)?openreg\b|\bOPENREG_"
)
# In CMake, also all other names, of targets and projects; torch_openreg is not one of them.
_CMAKE = re.compile(r"(?:^|/)CMakeLists\.txt$|\.cmake$")
_OF_CMAKE = re.compile(r"\bopenreg")
# Asks PyTorch itself, in a process without any backend, since a rename cannot be undone.
_ASK_PYTORCH = """
import sys, torch
name = sys.argv[1]
try:
    torch.device("unknown")
except RuntimeError as error:
    known = str(error).partition("Expected one of ")[2].partition(" device type")[0].split(", ")
if name in known:
    sys.exit(f"it is a device of PyTorch's own: {', '.join(known)}")
for owner in ("torch", "torch.Tensor", "torch.nn.Module", "torch.UntypedStorage"):
    for attribute in (name, f"is_{name}"):
        if hasattr(eval(owner), attribute):
            sys.exit(f"{owner}.{attribute} exists already")
try:
    torch.utils.rename_privateuse1_backend(name)
    torch.device(f"{name}:0")
except RuntimeError as error:
    sys.exit(f"PyTorch refuses it: {str(error).splitlines()[0]}")
"""


@dataclass(frozen=True)
class Names:
    """The name of a device, the prefix of its driver's functions, and the name of the library and namespace."""

    device: str
    prefix: str
    library: str = ""
    """As the device, unless another is given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "library", self.library or self.device)

    @property
    def package(self) -> str:
        """The Python package, and the distribution."""
        return f"torch_{self.device}"

    def put_into(self, text: str, path: str = "") -> str:
        """The text, or a path, with the vendor's names; ``path`` is that of the text: CMake files name targets."""
        # First, since the name of the device may begin with or_, and then OR_ in capitals.
        text = _DRIVER_MACRO.sub(f"{self.prefix.upper()}_", _DRIVER_NAME.sub(self.prefix, text))
        text = _OF_LIBRARY.sub(self._as_library, text)
        if _CMAKE.search(path):
            text = _OF_CMAKE.sub(self.library, text)
        return text.replace("openreg", self.device).replace("OPENREG", self.device.upper())

    def _as_library(self, found: re.Match[str]) -> str:
        return found[0].replace("openreg", self.library).replace("OPENREG", self.library.upper())


def chosen(device: str, prefix: str | None, library: str | None = None) -> Names:
    """The names, if PyTorch, Python and C++ accept them.

    Raises:
        Fault: names what was given, and what is wrong with it.
    """
    fault = _fault(device)
    if fault is not None:
        raise Fault(f"a backend cannot be called {device!r}: {fault}")
    prefix = _initials(device) if prefix is None else prefix
    if not _PREFIX.fullmatch(prefix):
        raise Fault(
            f"functions of a driver cannot begin with {prefix!r}: give two to eight letters, in lower case, as "
            "PREFIX=am (--prefix am)"
        )
    if prefix in _TAKEN_PREFIXES:
        raise Fault(
            f"functions of a driver cannot begin with {prefix!r}: those of another driver do; give others, as "
            "PREFIX=am (--prefix am)"
        )
    names = Names(device, prefix, library or "")
    fault = _library_fault(names, is_given=library is not None)
    if fault is not None:
        raise Fault(f"a library and namespace cannot be called {names.library!r}: {fault}")
    # Last, because it takes seconds.
    fault = _fault_of_pytorch(device)
    if fault is not None:
        raise Fault(f"a backend cannot be called {device!r}: {fault}")
    return names


def _library_fault(names: Names, is_given: bool) -> str | None:
    library = names.library
    if not _LIBRARY.fullmatch(library):
        return "give lower-case letters, digits, and single underscores between them"
    if library in _TAKEN_BY_CPP.split() or library in _TAKEN_LIBRARIES:
        return "it is a word of C++, or a library or namespace that a process with PyTorch has already"
    if library in TAKEN_NAMESPACES:
        return (
            f"a namespace inside PyTorch's, or the driver's, has the name; give another, LIBRARY={names.device}_torch"
        )
    if library in _TAKEN_BY_CMAKE:
        return f"CMake has a target of this name; give another, LIBRARY={names.device}_torch"
    if "openreg" in library:
        return "that is the name that is replaced"
    if library == names.package:
        return f"lib{library}.so is the backend itself, and the driver needs a library of its own"
    if library.startswith("lib"):
        return f"the file would be lib{library}.so; leave out the first lib"
    if _is_taken_by_c(library):
        return f"a header of the C library has the name already; give another, LIBRARY={names.device}_torch"
    # A vendor who gives the name of the device explicitly insists on it.
    if (found := ctypes.util.find_library(library)) and not (is_given and library == names.device):
        return f"this machine has a {found} already, perhaps of the SDK; give another, LIBRARY={names.device}_torch"
    return None


def _is_taken_by_c(library: str) -> bool:
    """Whether the usual headers have a function, type or macro of this name; without a compiler, no."""
    compiler = compiler_command()
    if shutil.which(compiler[0]) is None:
        return False

    def compiles(declared: str) -> bool:
        text = "".join(f"#include <{header}>\n" for header in _C_HEADERS) + declared
        command = [*compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"]
        return subprocess.run(command, input=text.encode(), capture_output=True, check=False).returncode == 0

    return not compiles(f"namespace {library} {{}}\n") and compiles("")


def _initials(device: str) -> str:
    """The first letters of the first and the last syllable: or for openreg, am for acme."""
    letters = device.replace("_", "")
    last = re.search(r".*([b-df-hj-np-tv-xz])[aeiouy]", letters[1:])
    return letters[0] + last.group(1) if last else letters[:2]


def _fault(device: str) -> str | None:
    if not _NAME.fullmatch(device):
        return (
            "PyTorch reads letters and underscores as the name of a device, and no capitals; a digit is its index, and "
            "the name of a package ends with a letter"
        )
    if "openreg" in device:
        return "that is the name that is replaced"
    if keyword.iskeyword(device):
        return "it is a keyword of Python, and torch.<name> is to be its module"
    if device in _TAKEN_BY_CPP.split():
        return "C++ or PyTorch uses the word, and it is to be a namespace"
    if f"torch_{device}" in _TAKEN_LIBRARIES:
        return f"PyTorch has a libtorch_{device}.so, and so would the backend"
    if device in _TAKEN_PACKAGES:
        return f"a package torch_{device} exists already, and libraries that import it would get this one instead"
    return None


def _fault_of_pytorch(device: str) -> str | None:
    asked = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _ASK_PYTORCH, device],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return asked.stderr.strip().splitlines()[-1] if asked.returncode != 0 else None
