"""The names of a vendor's backend, and a text of this repository with them in the place of ours.

All that is ours begins with one of three words: `openreg` (device, packages, namespaces, files), `OPENREG` (macros and
environment variables), and `or`, before a capital, in the names of the driver's functions and types.
"""

from __future__ import annotations

import keyword
import os
import re
import subprocess
import sys
from dataclasses import dataclass

from environment import Fault

_NAME = re.compile(r"[a-z][a-z_]*")
_PREFIX = re.compile(r"[a-z]{2,8}")
# The name becomes a namespace: the keywords of C++20 cannot, and `at` is PyTorch's.
_TAKEN_BY_CPP = """
alignas alignof and and_eq asm at auto bitand bitor bool break case catch char class co_await co_return co_yield compl
concept const const_cast consteval constexpr constinit continue decltype default delete do double dynamic_cast else enum
explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
operator or or_eq private protected public register reinterpret_cast requires return short signed sizeof static
static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned
using virtual void volatile wchar_t while xor xor_eq
"""
# Of drivers whose headers a program may include beside the vendor's.
_TAKEN_PREFIXES = ("cu", "cuda", "hip", "sycl", "ze")
# The second is the pattern of the linker for all of them, in exports.map.
_DRIVER_NAME = re.compile(r"\bor(?=[A-Z][a-z]|\[A-Z\]\*)")
_DRIVER_MACRO = re.compile(r"\bOR_(?=[A-Z])")
# Asks PyTorch itself, in a process without any backend: a name cannot be taken back.
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
    """The name of a device, and what the functions of its driver begin with."""

    device: str
    prefix: str

    @property
    def package(self) -> str:
        """The Python package, and the distribution."""
        return f"torch_{self.device}"

    def put_into(self, text: str) -> str:
        """The text, or the path of a file, as the vendor's."""
        text = text.replace("openreg", self.device).replace("OPENREG", self.device.upper())
        text = _DRIVER_NAME.sub(self.prefix, text)
        return _DRIVER_MACRO.sub(f"{self.prefix.upper()}_", text)


def chosen(device: str, prefix: str | None) -> Names:
    """The names, if PyTorch, Python and C++ accept them.

    Raises:
        Fault: names what was given, and what is wrong with it.
    """
    fault = _fault(device)
    if fault is not None:
        raise Fault(f"a backend cannot be called {device!r}: {fault}")
    prefix = _initials(device) if prefix is None else prefix
    if not _PREFIX.fullmatch(prefix):
        raise Fault(f"functions of a driver cannot begin with {prefix!r}: give two to eight letters, in lower case")
    if prefix in _TAKEN_PREFIXES:
        raise Fault(f"functions of a driver cannot begin with {prefix!r}: those of another driver do; give --prefix")
    return Names(device, prefix)


def _initials(device: str) -> str:
    """The letters that begin the first syllable and the last one: or for openreg, am for acme."""
    letters = device.replace("_", "")
    last = re.search(r".*([b-df-hj-np-tv-xz])[aeiouy]", letters[1:])
    return letters[0] + last.group(1) if last else letters[:2]


def _fault(device: str) -> str | None:
    if not _NAME.fullmatch(device):
        return "PyTorch reads letters and underscores as the name of a device, and no capitals; a digit is its index"
    if "openreg" in device:
        return "that is the name that is replaced"
    if keyword.iskeyword(device):
        return "it is a keyword of Python, and torch.<name> is to be its module"
    if device in _TAKEN_BY_CPP.split():
        return "C++ or PyTorch uses the word, and it is to be a namespace"
    asked = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _ASK_PYTORCH, device],
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return asked.stderr.strip().splitlines()[-1] if asked.returncode != 0 else None
