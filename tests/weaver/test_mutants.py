"""The generators create the expected mutants, and weaving them in does not change the behavior of the source."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

from weaver.configuration import load
from weaver.proof import cxx_mutants, python_mutants
from weaver.proof.mutants import Mutant, Source, identified, weave

MACROS = load(Path(__file__).resolve().parents[2]).mutants


def cxx(code: str, lines: set[int] | None = None) -> Source:
    text = textwrap.dedent(code).encode()
    return cxx_mutants.read("a.cpp", text, lines or set(range(1, text.count(b"\n") + 2)), MACROS)


def python(code: str) -> Source:
    text = textwrap.dedent(code).encode()
    return python_mutants.read("a.py", text, set(range(1, text.count(b"\n") + 2)))


def changes(source: Source) -> list[tuple[str, str, str]]:
    return [(one.operator, one.before, one.after) for one in source.mutants]


def function(body: str) -> list[tuple[str, str, str]]:
    return changes(cxx(f"void f() {{ {body} }}"))


def woven(source: Source) -> str:
    return weave(source.text, dict(enumerate(source.mutants, 1)), lambda number: f"M({number})").text.decode()


def test_a_condition_is_made_true_and_false() -> None:
    assert function("if (a == b) { g(); } else { h(); }")[:2] == [
        ("condition true", "a == b", "true"),
        ("condition false", "a == b", "false"),
    ]


def test_a_guarded_statement_is_removed_once() -> None:
    assert function("if (a) return;") == [
        ("condition true", "a", "true"),
        ("guarded statement removed", "a", "false"),
    ]


def test_each_operand_is_removed_and_weaker_mutants_are_left_out() -> None:
    assert function("if (!a && b == c && d) { g(); h(); }")[:4] == [
        ("condition false", "!a && b == c && d", "false"),
        ("operand removed", "!a && b == c && d", "bool(!a && b == c)"),
        ("operand removed", "!a && b == c", "bool(b == c)"),
        ("operand removed", "!a && b == c", "bool(!a)"),
    ]


def test_of_a_check_only_the_condition_is_mutated() -> None:
    assert function('TORCH_CHECK(n > 1, "n is ", n + 2);') == [
        ("check removed", 'TORCH_CHECK(n > 1, "n is ", n + 2);', ""),
        ("boundary", "n > 1", "(n) >= (1)"),
        ("literal", "1", "0"),
    ]


def test_registrations_are_dropped() -> None:
    source = cxx('TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("abs", abs); }\nREGISTER_X(a)\n')
    assert changes(source) == [("registration removed", 'm.impl("abs", abs);', "")]
    source = cxx("REGISTER_PRIVATEUSE1_DISPATCH(abs_stub, &abs)\nC10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);\n")
    assert [one.operator for one in source.mutants] == ["registration removed"] * 2
    assert "(abs_stub, (M(1) ? nullptr : (&abs)))" in woven(source)
    assert "WEAVER_OPTIONAL_C10_REGISTER_GUARD_IMPL(M(2), PrivateUse1, Guard)" in woven(source)


def test_a_guard_is_an_object_that_nothing_names_again() -> None:
    assert function(
        "const DeviceGuard guard(device); const Inside inside; const Call call{1}; Named named(x); use(named);"
    ) == [
        ("guard removed", "const DeviceGuard guard(device);", ""),
        ("guard removed", "const Inside inside;", ""),
        ("guard removed", "const Call call{1};", ""),
        ("literal", "1", "0"),
        ("statement removed", "use(named);", ""),
    ]
    assert function("const std::lock_guard lock(mutex_);") == [
        ("lock removed", "const std::lock_guard lock(mutex_);", "")
    ]


def test_an_ignored_error_is_a_mutant() -> None:
    source = cxx("int f() { if (const Error error = g()) return error; return h(); }")
    assert "if (const Error error = g(); !M(1) && bool(error))" in woven(source)


def test_swapped_arguments() -> None:
    assert ("arguments swapped", "g(a, b)", "g(b, a)") in function("x = g(a, b);")
    assert not [one for one in function('fail(error, "%d of %d", a, b); MACRO(a, b);') if one[0] == "arguments swapped"]


def test_what_does_not_run_is_not_mutated() -> None:
    source = cxx(
        """\
        constexpr int kSize = 1 + 2;
        int global = 3;
        static_assert(kSize == 3);
        enum Kind { kOne = 1 };
        constexpr int twice(int n) { return 2 * n; }
        template <int N = 4> struct Array { static constexpr int size = 5; int at[6]; };
        void f(int n = 7) {
          if constexpr (kSize == 8) {}
          switch (n) { case 9: {} }
          [[maybe_unused]] Array<10> array;
          log << "eleven" << n;
        }
        """
    )
    assert [one for one in changes(source) if one[0] == "literal" or one[0] == "shift"] == []


def test_only_shown_lines_are_mutated() -> None:
    code = "void f() {\n  g(1);\n  h(2);\n  k(\n    3);\n}\n"
    assert {one.line for one in cxx(code, {2, 4}).mutants} == {2}


def test_weaving_keeps_the_lines_and_nests() -> None:
    source = cxx("int f(int a) {\n  return a + g(a,  // why\n               2) * 3;\n}\n")
    text = woven(source)
    assert text.count("\n") == source.text.count(b"\n")
    assert text.splitlines()[1].startswith("  return (M(1) ? ((a) - (g(a, 2) * 3)) : (a + (M(2) ? (")


def test_a_place_in_the_woven_text_names_its_mutant() -> None:
    source = cxx("int f(int a) { return a + 2; }\n")
    result = weave(source.text, dict(enumerate(source.mutants, 1)), lambda number: f"M({number})")
    line = result.text.decode().splitlines()[0]
    assert result.mutant_at(1, line.index("(a) - (2)") + 1) == 1
    assert result.mutant_at(1, line.index("2 + 1") + 1) == 2
    assert result.mutant_at(1, 1) is None
    assert result.mutants_on([1]) == {1, 2}


def test_code_that_the_installed_release_does_not_compile_has_none() -> None:
    code = "#if {condition}\nint f() {{ return g() + 1; }}\n#else\nint f() {{ return g() - 2; }}\n#endif\n"
    there = changes(cxx(code.format(condition="OPENREG_TORCH_AT_LEAST(2, 13)")))
    assert {before for _, before, _ in there} >= {"g() + 1", "g() - 2"}
    absent = changes(cxx(code.format(condition="OPENREG_TORCH_AT_LEAST(2, 14)")))
    assert absent == [change for change in there if change[1] in {"g() - 2", "2"}]


def test_identities_stay_when_a_comment_changes() -> None:
    before = cxx("void f() {\n  g(1);  // one\n}\n")
    for text in ("void f() {\n  g(1);\n}\n", "// A line.\nvoid f() {\n  g(1);  // another\n}\n"):
        after = cxx(text)
        assert [one.identity for one in identified(before.mutants, before.text)] == [
            one.identity for one in identified(after.mutants, after.text)
        ]


def test_identities_stay_when_lines_move() -> None:
    first = cxx("void f() {\n  g(1);\n}\n")
    moved = cxx("\n\nvoid f() {\n  g(1);\n}\n")
    assert [one.identity for one in identified(first.mutants, first.text)] == [
        one.identity for one in identified(moved.mutants, moved.text)
    ]
    twice = cxx("void f() {\n  g(1);\n  g(1);\n}\n")
    assert len({one.identity for one in identified(twice.mutants, twice.text)}) == len(twice.mutants)


PYTHON = '''\
"""A module."""
import functools

calls = []


@functools.cache
def small(n: int, limit: int = 10) -> bool:
    """Whether n is small."""
    calls.append(n)
    if n < 0 or n is None:
        raise ValueError(f"{n + 1}")
    with open(__file__):
        return (
            n  # why
            < limit - 1
        )


def name(n: int) -> str | None:
    return str(n)


if __name__ == "__main__":
    small(1)
'''


def test_python_mutants() -> None:
    found = changes(python(PYTHON))
    assert found == [
        ("decorator removed", "functools.cache", "lambda decorated: decorated"),
        ("literal", "10", "10 + 1"),
        ("statement removed", "calls.append(n)", "pass"),
        ("condition true", "n < 0 or n is None", "True"),
        ("operand removed", "n < 0 or n is None", "n is None"),
        ("operand removed", "n < 0 or n is None", "n < 0"),
        ("boundary", "n < 0", "n <= 0"),
        ("literal", "0", "0 + 1"),
        ("statement removed", 'raise ValueError(f"{n + 1}")', "pass"),
        ("guard removed", "open(__file__)", "__import__('contextlib').nullcontext()"),
        ("boundary", "n # why < limit - 1", "n <= limit - 1"),
        ("arithmetic", "limit - 1", "limit + 1"),
        ("literal", "1", "0"),
        ("default returned", "str(n)", "None"),
    ]


def run(code: str, chosen: int) -> dict[str, Any]:
    space: dict[str, Any] = {"M": lambda number: number == chosen, "__name__": "planted", "__file__": __file__}
    exec(code, space)
    return space


def test_woven_python_does_what_is_chosen() -> None:
    source = python(PYTHON)
    code = woven(source)
    assert code.count("\n") == PYTHON.count("\n")
    assert ast.get_docstring(ast.parse(code)) == "A module."
    numbers = {one.operator: number for number, one in enumerate(source.mutants, 1)}
    original = run(code, 0)
    assert [original["small"](n) for n in (3, 8, 9, 3)] == [True, True, False, True]
    assert original["calls"] == [3, 8, 9]
    uncached = run(code, numbers["decorator removed"])
    assert [uncached["small"](3), uncached["small"](3), uncached["calls"]] == [True, True, [3, 3]]
    assert run(code, numbers["boundary"])["small"](9)
    assert run(code, numbers["default returned"])["name"](1) is None


def test_a_mutant_says_what_it_changes() -> None:
    mutant: Mutant = cxx("void f() {\n  g(a,\n    b);\n}\n").mutants[0]
    assert (mutant.path, mutant.line, mutant.last_line, mutant.before) == ("a.cpp", 2, 3, "g(a, b);")
