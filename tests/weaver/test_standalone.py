"""The text of a copy button is self-contained."""

from __future__ import annotations

import ast
import builtins
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import compile_copies
import pytest
from weaver.pages.literalinclude import _python_object
from weaver.sources import python_parts
from weaver.sources.installed import folder as package_folder
from weaver.sources.listing import Listing
from weaver.sources.regions import scan, without_marks
from weaver.sources.standalone import Standalone, standalone

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("csrc", "torch_openreg", "torch_openreg_autoload.py", "examples", "tools", "tests/opinfo", "cmake")
ORIGIN = "// csrc/pool.cpp\n"


def copied(text: str, shown: str, path: str = "csrc/pool.cpp") -> str:
    """The text to copy for the lines of a file that ``shown`` spans."""
    first = text[: text.index(shown)].count("\n") + 1
    return standalone(path, text, first, first + shown.rstrip("\n").count("\n"), path).text


POOL = """\
// Blocks of memory.
#include "pool.h"

#include <cstdint>
#include <vector>

#define LIMIT(n) (kRoom * (n))

namespace openreg {
namespace {

using std::size_t;

// LITERALINCLUDE START: pool-room
// How much there is.
constexpr uint64_t kRoom = uint64_t{1} << 40;
enum Kind { kSmall, kLarge };
// LITERALINCLUDE END: pool-room

template <class T, class U = std::vector<T>>
struct Blocks {
  U all{};
  // The brace of this is none: '{', "}", R"x(})x".
  void clear() { all.clear(); }  // NOT PROVEN: no page clears it
};

Kind kind_of(size_t size) { return size < 1'000 ? kSmall : kLarge; }

}  // namespace

// LITERALINCLUDE START: pool-fits
bool fits(size_t size) { return kind_of(size) == kLarge && size < LIMIT(1); }
// LITERALINCLUDE END: pool-fits

int clear(Blocks<int>& blocks) {
  blocks.clear();
  return 0;
}

REGISTER_POOL(openreg, &fits)

}  // namespace openreg
"""


def test_a_function_comes_with_what_it_needs_in_its_namespaces() -> None:
    assert copied(POOL, "bool fits(size_t size) { return kind_of(size) == kLarge && size < LIMIT(1); }") == (
        ORIGIN
        + """\
#include "pool.h"

#include <cstdint>
#include <vector>

#define LIMIT(n) (kRoom * (n))

namespace openreg {
namespace {

using std::size_t;

// How much there is.
constexpr uint64_t kRoom = uint64_t{1} << 40;
enum Kind { kSmall, kLarge };

Kind kind_of(size_t size) { return size < 1'000 ? kSmall : kLarge; }

}  // namespace

bool fits(size_t size) { return kind_of(size) == kLarge && size < LIMIT(1); }

}  // namespace openreg
"""
    )


def test_a_member_comes_with_its_class_without_what_is_for_the_guide() -> None:
    text = copied(POOL, "  void clear() { all.clear(); }")
    assert "template <class T, class U = std::vector<T>>\nstruct Blocks {\n  U all{};\n" in text
    assert "  void clear() { all.clear(); }\n};\n" in text
    assert "NOT PROVEN" not in text
    assert "LITERALINCLUDE" not in text
    assert "kRoom" not in text  # a member call does not refer to a function of the file


def test_a_registration_ends_before_the_brace_of_its_namespace() -> None:
    text = copied(POOL, "REGISTER_POOL(openreg, &fits)")
    assert text.endswith("\n\nREGISTER_POOL(openreg, &fits)\n\n}  // namespace openreg\n")
    assert "bool fits" in text


def test_an_explicit_instantiation_has_no_parameters() -> None:
    text = "template <class T>\nvoid f() {}\n\ntemplate void f<int>();\n"
    assert copied(text, "template void f<int>();") == ORIGIN + "\n" + text


def test_names_of_another_namespace_stay_visible() -> None:
    text = 'namespace a {\n#include "a.h"\n}\nusing namespace a;\n\nint x() { return y(); }\n'
    assert "using namespace a;" in copied(text, "int x() { return y(); }")


REGISTRATIONS = """\
REGISTER(one_stub, &one)
REGISTER(two_stub, &two)  // with a comment

constexpr int kTwo = 2;

int twice() { return kTwo; }
"""


def test_macros_without_a_semicolon_are_parts_of_their_own() -> None:
    assert copied(REGISTRATIONS, "REGISTER(one_stub, &one)") == ORIGIN + "\nREGISTER(one_stub, &one)\n"
    expected = "\nREGISTER(two_stub, &two)  // with a comment\n"
    assert copied(REGISTRATIONS, "REGISTER(two_stub, &two)") == ORIGIN + expected
    assert copied(REGISTRATIONS, "int twice() { return kTwo; }") == (
        ORIGIN + "\nconstexpr int kTwo = 2;\n\nint twice() { return kTwo; }\n"
    )


def test_a_keyword_is_not_the_name_of_what_is_declared_with_it() -> None:
    text = "struct Ahead;\ntypedef struct Ahead* ahead_t;\n\nstruct Other {};\ntypedef Other other_t;\n"
    assert copied(text, "struct Other {};") == ORIGIN + "\nstruct Other {};\n"
    assert "Ahead" not in copied(text, "typedef Other other_t;")


def test_a_nested_type_is_used_by_its_own_name() -> None:
    text = """\
struct Event::Stamp {
  int time;
};

Stamp Event::now() { return Stamp{1}; }

int Event::count() { return 2; }
"""
    assert copied(text, "Stamp Event::now() { return Stamp{1}; }") == ORIGIN + "\n" + text.partition("\nint")[0]
    assert copied(text, "int Event::count() { return 2; }") == ORIGIN + "\nint Event::count() { return 2; }\n"


def test_a_macro_in_front_of_a_declaration_comes_along() -> None:
    text = "#define OPENREG_EXPORT\n\nOPENREG_EXPORT void start();\n\nvoid stop();\n"
    assert copied(text, "OPENREG_EXPORT void start();") == ORIGIN + "\n" + text.partition("\nvoid stop")[0]
    assert copied(text, "void stop();") == ORIGIN + "\nvoid stop();\n"


def test_a_macro_that_is_defined_again_is_removed_before() -> None:
    text = "#undef CHECK\n#define CHECK(n) (n)\n\nint half() { return CHECK(0); }\n\nint whole() { return 1; }\n"
    assert copied(text, "int half() { return CHECK(0); }") == ORIGIN + "\n" + text.partition("\nint whole")[0]
    assert copied(text, "int whole() { return 1; }") == ORIGIN + "\nint whole() { return 1; }\n"


def test_places_are_those_of_characters() -> None:
    text = "// \u00bd \u20ac \U0001f600\nint half() { return 0; }\n\nint whole() { return 1; }\n"
    assert copied(text, "int whole() { return 1; }") == ORIGIN + "\nint whole() { return 1; }\n"


def test_what_serves_c_too_is_copied_as_cpp() -> None:
    text = """\
#pragma once
#ifdef __cplusplus
extern "C" {
#define OR_ENUM enum [[nodiscard]]
#else
#define OR_ENUM enum
#endif

typedef OR_ENUM orError { orSuccess } orError;
typedef struct orStream* orStream_t;

orError orStreamCreate(orStream_t* stream);

#ifdef __cplusplus
}
#endif
"""
    assert copied(text, "orError orStreamCreate(orStream_t* stream);") == (
        ORIGIN
        + """
extern "C" {

#define OR_ENUM enum [[nodiscard]]

typedef OR_ENUM orError { orSuccess } orError;
typedef struct orStream* orStream_t;

orError orStreamCreate(orStream_t* stream);

}  // extern "C"
"""
    )


def test_what_is_complete_stays_as_it_is() -> None:
    assert copied(POOL, POOL) == without_marks("csrc/pool.cpp", POOL)
    assert copied(POOL, '#include "pool.h"\n\n#include <cstdint>') == '#include "pool.h"\n\n#include <cstdint>\n'
    assert copied(POOL, "// Blocks of memory.") == "// Blocks of memory.\n"
    assert copied("set(A b)  # NOT PROVEN: no\nset(B c)\n", "set(A b)", "CMakeLists.txt") == "set(A b)\n"


MODULE = '''\
"""Streams."""

from __future__ import annotations

import os
import threading, time
from pathlib import Path as P, PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_lock = threading.Lock()  # of the file
time = 3


def _size(path: P) -> int:
    return path.stat().st_size


# How many.
@staticmethod
def sizes(paths: Sequence[str]) -> list[int]:
    """All sizes."""
    with _lock:
        os_ = [path for path in paths]
        return [_size(P(path)) for path in os_]


print(PurePath("a"))
'''


SIZES = '''\
# torch_openreg/streams.py
from __future__ import annotations

import threading
from pathlib import Path as P
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_lock = threading.Lock()  # of the file


def _size(path: P) -> int:
    return path.stat().st_size


# How many.
@staticmethod
def sizes(paths: Sequence[str]) -> list[int]:
    """All sizes."""
    with _lock:
        os_ = [path for path in paths]
        return [_size(P(path)) for path in os_]
'''


def test_python_comes_with_imports_by_name_and_what_it_needs() -> None:
    assert copied(MODULE, "def sizes(paths: Sequence[str]) -> list[int]:", "torch_openreg/streams.py") == SIZES


def test_python_that_needs_nothing_stays_as_it_is() -> None:
    assert copied(MODULE + "print(1)\n", "print(1)", "examples/a.py").startswith("# examples/a.py\n")
    assert copied("import os\n\nprint(os.name)\nprint(1)\n", "import os\n\nprint(os.name)", "a.py") == (
        "import os\n\nprint(os.name)\n"
    )


VECTORS = """\
#pragma once

// LITERALINCLUDE START: vectors-macros
// Before a loop.
#ifdef __clang__
#define POOL_LOOP _Pragma("clang loop")
#elif defined(__GNUC__)
#define POOL_LOOP _Pragma("GCC ivdep")
#else  // nothing
#define POOL_LOOP
#endif
// LITERALINCLUDE END: vectors-macros

#if POOL_HAS_VECTORS
#define POOL_WIDTH 8
inline int width() { return POOL_WIDTH; }
#endif

inline void clear(int* numbers) {
  POOL_LOOP
  for (int i = 0; i < 4; ++i) numbers[i] = 0;
}
"""


def test_macros_come_with_their_conditions() -> None:
    macros = VECTORS[VECTORS.index("// Before a loop.") : VECTORS.index("// LITERALINCLUDE END")]
    assert copied(VECTORS, macros).partition("\n\n")[2].strip() == macros.strip()
    function = VECTORS[VECTORS.index("inline void clear") :]
    assert copied(VECTORS, function).partition("\n\n")[2].strip() == f"{macros}\n{function}".strip()


def test_a_condition_around_code_is_not_copied() -> None:
    shown = "inline int width() { return POOL_WIDTH; }\n"
    assert copied(VECTORS, shown).splitlines()[-2:] == ["#define POOL_WIDTH 8", shown.strip()]


def listings() -> list[Listing]:
    """All regions that pages can show, and the Python objects that pages show."""
    found = [Listing(region.path, region.first, region.last, region.name) for region in scan(ROOT, SOURCES)[0].values()]
    shown = re.compile(r"\{literalinclude\} /(\S+\.py)\n(?::.*\n)*?:pyobject: (\S+)")
    for page in sorted((ROOT / "docs/source").rglob("*.md")):
        for path, name in shown.findall(page.read_text(encoding="utf-8")):
            excerpt = _python_object((ROOT / path).read_text(encoding="utf-8").splitlines(), name)
            found.append(Listing(path, excerpt.first, excerpt.last))
    return found


def copy_of(listing: Listing) -> str:
    text = (ROOT / listing.path).read_text(encoding="utf-8")
    return standalone(listing.path, text, listing.first, listing.last, listing.path).text


@pytest.mark.long
def test_every_listing_is_in_its_copy() -> None:
    found = listings()
    assert len(found) > 600
    for listing in found:
        lines = (ROOT / listing.path).read_text(encoding="utf-8").splitlines()
        shown = without_marks(listing.path, "\n".join(lines[listing.first - 1 : listing.last])).splitlines()
        copy = set(copy_of(listing).splitlines())
        assert [line for line in shown if line not in copy and line != "}"] == [], listing


@pytest.mark.long
def test_all_python_is_complete() -> None:
    """Each copy compiles, and each name that it uses is imported, a builtin or defined in it."""
    found = [listing for listing in listings() if listing.path.endswith(".py")]
    assert len(found) > 150
    for listing in found:
        text = copy_of(listing)
        compile(text, listing.path, "exec")
        defined = {name for node in ast.parse(text).body for name in python_parts.given(node)}
        assert python_parts.used(text) - defined - set(dir(builtins)) - {"__file__", "__name__"} == set(), listing


# One of each kind that compiles within seconds, and three that include PyTorch. tools/compile_copies.py compiles all.
@pytest.mark.parametrize(
    "region",
    [
        "driver-streams", "stream-table-use", "copy-look-up", "config-memory", "kernel-host-launch", "minimal-pinned",
        "hooks-init", "stream-external", "abs-stub-registration",
    ],
)  # fmt: skip
@pytest.mark.long
def test_cpp_compiles_alone(region: str) -> None:
    (listing,) = [listing for listing in listings() if listing.region == region]
    includes = package_folder("torch") / "include"
    command = [
        *shlex.split(os.environ.get("CXX") or "c++"), "-std=c++20", "-fsyntax-only", "-Icsrc", "-Icsrc/driver",
        "-iquote", str(Path(listing.path).parent), "-isystem", str(includes), "-isystem",
        str(includes / "torch/csrc/api/include"), "-x", "c++", "-",
    ]  # fmt: skip
    ran = subprocess.run(command, input=copy_of(listing), capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr


def test_the_tool_tells_what_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = f"{os.environ.get('CXX') or 'c++'} -std=c++20 -Wall -Wextra -Werror -o openreg.dir/openreg.o -c a.cpp"
    commands = tmp_path / "compile_commands.json"
    commands.write_text(json.dumps([{"command": command}]), encoding="utf-8")
    assert list(compile_copies.faults(commands, ["csrc/driver/address_space.cpp", "csrc/driver/config.h"])) == []
    monkeypatch.setattr(compile_copies, "standalone", lambda *_: Standalone("int broken(;"))
    (fault,) = compile_copies.faults(commands, ["csrc/driver/config.cpp"])
    assert fault.startswith("csrc/driver/config.cpp: config-")
    assert "<stdin>:1:12: error:" in fault


def test_the_tool_names_the_build_that_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compile_copies, "build_folder", lambda: ROOT / "build" / "none")
    assert compile_copies.main(["csrc/driver/config.cpp"]) == 1
    file = "build/none/compile_commands.json"
    wanted = f"compile_copies: {file} has the compiler's flags, and is not there; run `make build`\n"
    assert capsys.readouterr().err == wanted
