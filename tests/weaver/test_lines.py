"""The classes of displayed lines, with planted faults that must be detected."""

from __future__ import annotations

from weaver.proof.lines import Listing, classify

CXX = """\
/// Adds.
int add(int a, int b) {
  // A comment, and a line that only closes.
  if (a > b) {
    return a + b;
  }
  return b;
}
#include <vector>
template <typename T>
T twice(
    T value) {
  return value + value;
}
struct Pair {
  int first = 0;
};
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("abs", &abs);
}
""".splitlines()
COUNTED = {*range(2, 9), *range(18, 21)}
REGISTERED = set(range(18, 21))


def cxx(executed: set[int], *, counted: set[int] = COUNTED, text: list[str] = CXX) -> Listing:
    return classify("csrc/add.cpp", text, range(1, len(text) + 1), counted, REGISTERED, executed, script=False)


def test_a_branch_that_no_example_takes_is_missed() -> None:
    found = cxx({2, 3, 4, 7, 8})
    assert found.executed == [2, 4, 7]
    assert 5 in found.missed


def test_comments_braces_and_preprocessor_lines_are_no_lines() -> None:
    found = cxx(set(range(1, 21)))
    known = [*found.executed, *found.missed, *(line for lines in found.silent.values() for line in lines)]
    assert not {1, 3, 6, 8, 9} & set(known)


def test_the_body_of_a_template_that_nothing_instantiates_is_missed() -> None:
    assert 13 in cxx({2, 4, 5, 7}).missed


def test_the_parameter_of_a_template_may_be_a_template() -> None:
    text = "template <template <class> class Box>\nint size() {\n  return Box<int>::kSize;\n}".splitlines()
    assert cxx(set(), counted=set(), text=text).missed == [3]


def test_the_body_of_a_template_that_something_instantiates_has_counters() -> None:
    found = cxx({2, 4, 5, 7, 12, 13}, counted=COUNTED | {12, 13, 14})
    assert found.missed == []
    assert 13 in found.executed


FUNCTIONS = """\
struct Name {
  consteval Name(int size) : length(size) {}
  int length = 0;
};
template <class T>
struct Matrix {
  T* row(int index) { return data + index; }
};
auto largest(auto a, auto b) {
  const auto larger = [&] { return a > b ? a : b; };
  return larger();
}
#if AT_LEAST(2, 14)
int next() {
  return 1;
}
#else
int next();
#endif
""".splitlines()


def test_of_functions_without_counters_each_line_is_missed_that_could_be_executed() -> None:
    found = cxx(set(), counted=set(), text=FUNCTIONS)
    assert found.missed == [7, 10, 11, 15]
    assert found.silent["declaration"] == [1, 2, 3, 5, 6, 9, 14]


def test_what_another_release_compiles_is_not_missed() -> None:
    shown = range(13, 20)
    found = classify("csrc/a.cpp", FUNCTIONS, shown, set(), set(), set(), script=False, absent=r"AT_LEAST\(2, 14\)")
    assert (found.missed, found.silent) == ([], {"other release": [14, 15], "declaration": [18]})
    found = classify("csrc/a.cpp", FUNCTIONS, shown, {14, 15, 16}, set(), {14}, script=False, absent=r"AT_.*")
    assert (found.executed, found.missed) == ([14], [15])


def test_what_no_build_can_count_is_not_measured() -> None:
    found = classify("csrc/a.cpp", FUNCTIONS, range(5, 12), set(), set(), set(), script=False, unmeasured=True)
    assert (found.missed, found.silent) == ([], {"declaration": [5, 6, 9], "not measured": [7, 10, 11]})


def test_code_in_a_language_without_counters_is_no_build_file() -> None:
    text = ["// Adds.", "kernel void add(global float* a) {", "  a[0] += 1;", "}"]
    for unmeasured, expected in ((True, ([], {"not measured": [2, 3]})), (False, ([2, 3], {}))):
        found = classify("csrc/a.cl", text, range(1, 5), set(), set(), set(), script=False, unmeasured=unmeasured)
        assert (found.missed, found.silent) == expected


def test_declarations_and_registrations_have_no_information_of_their_own() -> None:
    found = cxx({2, 4, 5, 7, 18, 19})
    assert found.silent["registration"] == [18, 19]
    assert {15, 16} <= set(found.silent["declaration"])


def test_a_comment_at_the_line_excuses_it_with_its_reason() -> None:
    text = [line.replace("return a + b;", "return a + b;  // NOT PROVEN: needs a second machine") for line in CXX]
    found = cxx({2, 4, 7}, text=text)
    assert found.excused == {5: "needs a second machine"}
    assert 5 not in found.missed


def test_an_excuse_does_not_hide_a_line_that_is_executed() -> None:
    text = [line.replace("return a + b;", "return a + b;  // NOT PROVEN: needs a second machine") for line in CXX]
    found = cxx({2, 4, 5, 7}, text=text)
    assert found.excused == {}
    assert 5 in found.executed


PYTHON = '''\
"""A module."""
import os
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from pathlib import Path
LIMIT = 3
def clamp(value: int) -> int:
    """No more than the limit."""
    if value > LIMIT:
        return LIMIT
    try:
        return value
    except ValueError:
        raise
class Device:
    name = "a"
    def call(self) -> str:
        return os.fspath(
            self.name
        )
'''.splitlines()


def python(executed: set[int], path: str = "torch_openreg/clamp.py") -> Listing:
    return classify(
        path, PYTHON, range(1, len(PYTHON) + 1), set(), set(), executed, script=path.startswith("examples/")
    )


def test_of_python_each_statement_in_a_function_must_be_executed() -> None:
    found = python({9, 11, 12, 18})
    assert found.executed == [9, 11, 12, 18]
    assert found.missed == [10, 13, 14]


def test_what_an_import_executes_has_no_information() -> None:
    found = python({2, 3, 4, *range(6, 21)})
    assert found.silent == {"import": [2, 3, 4, 6, 7, 15, 16, 17], "declaration": [5]}


def test_each_case_of_a_match_must_be_executed() -> None:
    text = """\
def name(value: int) -> str:
    match value:
        case 1:
            return "one"
        case _:
            return "many"
""".splitlines()
    found = classify("torch_openreg/name.py", text, range(1, 7), set(), set(), {2, 3, 4}, script=False)
    assert (found.executed, found.missed) == ([2, 3, 4], [5, 6])


def test_a_script_is_executed_by_the_page_that_runs_it() -> None:
    found = python({2, 3, 4, 6, 7, 15, 16, 17}, path="examples/clamp.py")
    assert found.executed == [2, 3, 4, 6, 7, 15, 16, 17]
    assert {9, 18} <= set(found.missed)


def test_build_files_have_no_information() -> None:
    text = ["# Why.", "", "add_library(a b.cpp)"]
    assert classify("CMakeLists.txt", text, range(1, 4), set(), set(), set(), script=False).silent == {
        "build file": [3]
    }


def test_only_the_lines_that_are_shown_are_sorted() -> None:
    found = classify("csrc/add.cpp", CXX, range(2, 6), COUNTED, REGISTERED, {2, 4}, script=False)
    assert (found.executed, found.missed, found.silent) == ([2, 4], [5], {})
