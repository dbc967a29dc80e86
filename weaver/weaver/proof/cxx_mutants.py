"""The mutants of C++ sources, found in the syntax tree of tree-sitter.

The operators avoid redundant mutants: one that is killed whenever some other one is killed only costs time and inflates
the count. A condition is made true and made false, but not negated; ``&&`` and ``||`` lose each of their operands, but
are not exchanged, nor made true (``&&``) or false (``||``) as a whole, nor are their operands negated; a check that
throws is removed, but its condition is not negated. Mutants that do not compile are found by compiling them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from tree_sitter import Node

from weaver.configuration import Mutants
from weaver.proof.mutants import CHOSEN, Insertion, Source
from weaver.sources.cpp_tree import parse

_MACRO = re.compile(r"[A-Z][A-Z0-9_]+")
_LOCK = re.compile(r"\b(lock_guard|unique_lock|scoped_lock|shared_lock)\b")

_OTHER = {
    **{"+": "-", "-": "+", "*": "/", "/": "*", "%": "*"},
    **{"&": "|", "|": "&", "^": "&", "<<": ">>", ">>": "<<"},
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">"},
    **{"==": "!=", "!=": "=="},
}
_NAMES = {"<": "boundary", ">": "boundary", "=": "equality", "!": "equality", "&": "bits", "|": "bits", "^": "bits"}
_LITERALS = {"true", "false", "null", "nullptr", "number_literal", "string_literal", "char_literal", "this"}
_SKIPPED = {
    *("comment", "string_literal", "raw_string_literal", "concatenated_string", "char_literal", "system_lib_string"),
    *("preproc_include", "preproc_def", "preproc_function_def", "preproc_call", "preproc_directive"),
    *("template_argument_list", "template_parameter_list", "requires_clause", "concept_definition"),
    *("static_assert_declaration", "attribute_declaration", "attribute_specifier", "enumerator_list"),
    *("alignas_qualifier", "alignas_specifier"),
    *("bitfield_clause", "noexcept", "decltype", "sizeof_expression", "alignof_expression", "type_descriptor"),
    *("alias_declaration", "type_definition", "optional_parameter_declaration", "abstract_array_declarator", "ERROR"),
}
# Code below these nodes is executed; everything else is declarations.
_RUNS = {"compound_statement", "field_initializer_list", "field_declaration"}
_SWAPPED = {"identifier", "field_expression", "call_expression", "pointer_expression", "subscript_expression"}


def read(path: str, text: bytes, shown: set[int], macros: Mutants) -> Source:
    """Finds the mutants that lie entirely on the lines ``shown``; ``macros`` gives the meaning of some macros."""
    reader = _Reader(Source(path, text), shown, macros)
    reader.visit(parse(text.decode("latin-1")).root_node, inside=False)
    return reader.source


def _text(node: Node | None) -> str:
    """The text of a node on one line, without its comments."""
    if node is None or node.text is None:
        return ""
    text = node.text
    for comment in sorted(_comments(node), key=lambda found: found.start_byte, reverse=True):
        start, end = comment.start_byte - node.start_byte, comment.end_byte - node.start_byte
        text = text[:start] + text[end:]
    return " ".join(line.strip() for line in text.decode().split("\n"))


def _comments(node: Node) -> Iterator[Node]:
    for child in node.children:
        if child.type == "comment":
            yield child
        else:
            yield from _comments(child)


def _operator(node: Node) -> str:
    return _text(node.child_by_field_name("operator"))


def _is(node: Node, word: str) -> bool:
    """Whether a declaration or function is marked by ``constexpr`` or the like."""
    return any(
        _text(child) == word for child in node.children if child.type.endswith("qualifier") or not child.is_named
    )


def _is_constant(node: Node) -> bool:
    return any(_is(node, word) for word in ("constexpr", "consteval", "constinit"))


def _arguments(call: Node) -> list[Node]:
    listed = call.child_by_field_name("arguments")
    return [child for child in listed.named_children if child.type != "comment"] if listed is not None else []


class _Reader:
    """Walks a tree. ``inside`` is true in the code of a function, which is executed, and false in declarations."""

    def __init__(self, source: Source, shown: set[int], macros: Mutants) -> None:
        self.source = source
        self.shown = shown
        self.macros = macros

    def visit(self, node: Node, *, inside: bool) -> None:
        if node.type == "ERROR":
            self.source.unread |= set(range(node.start_point[0] + 1, node.end_point[0] + 2)) & self.shown
        if node.type in _SKIPPED or _is_constant(node):
            return
        handle = getattr(self, f"on_{node.type}", None)
        if inside and handle is not None:
            handle(node)
        elif node.type == "expression_statement":
            self._registration(node)
        for child in self._mutable_children(node):
            self.visit(child, inside=inside or node.type in _RUNS)

    def _mutable_children(self, node: Node) -> Iterable[Node]:
        if node.type == "preproc_if" and re.fullmatch(self.macros.absent, _text(node.child_by_field_name("condition"))):
            alternative = node.child_by_field_name("alternative")
            return [] if alternative is None else [alternative]
        if node.type == "call_expression" and self._is_check(_text(node.child_by_field_name("function"))):
            return _arguments(node)[:1]
        skipped = {
            "case_statement": "value",
            "array_declarator": "size",
            "new_declarator": "length",
            "field_declaration": "default_value" if _is(node, "static") else "",
            "for_statement": "update",
        }.get(node.type)
        left_out = node.child_by_field_name(skipped) if skipped else None
        if node.type == "if_statement" and any(child.type == "constexpr" for child in node.children):
            left_out = node.child_by_field_name("condition")
        return [child for child in node.children if left_out is None or child != left_out]

    def _add(self, operator: str, node: Node, after: str, insertions: Iterable[Insertion]) -> None:
        lines = range(node.start_point[0] + 1, node.end_point[0] + 2)
        if self.shown.issuperset(lines):
            self.source.add(operator, node.start_byte, node.end_byte, after, insertions)

    def _choice(self, operator: str, node: Node, alternative: str) -> None:
        """Replaces an expression by another one."""
        around = (
            Insertion(node.start_byte, f"({CHOSEN} ? ({alternative}) : ("),
            Insertion(node.end_byte, "))", closes=True),
        )
        self._add(operator, node, alternative, around)

    def _removal(self, operator: str, node: Node) -> None:
        """Skips a statement."""
        around = (
            Insertion(node.start_byte, f"{{ if (!{CHOSEN}) {{ "),
            Insertion(node.end_byte, " } }", closes=True),
        )
        self._add(operator, node, "", around)

    # Statements.

    def on_expression_statement(self, node: Node) -> None:
        if node.named_child_count == 0 or _is_only_statement_of_if(node):
            return
        call = node.named_children[0]
        called = _text(call.child_by_field_name("function")) if call.type == "call_expression" else ""
        if self._is_check(called):
            self._removal("check removed", node)
        elif self._registers(called):
            self._removal("registration removed", node)
        else:
            self._removal("statement removed", node)

    def on_return_statement(self, node: Node) -> None:
        values = [child for child in node.named_children if child.type != "comment"]
        if not values:
            if not _is_only_statement_of_if(node):
                self._removal("statement removed", node)
            return
        value = values[0]
        if value.type == "unary_expression" and _operator(value) == "!":
            return
        if value.type == "binary_expression":
            if _operator(value) in {"<", "<=", ">", ">="}:
                self._choice("condition negated", value, f"!({_text(value)})")
            return
        simple = value.type in _LITERALS or value.type in {"conditional_expression", "lambda_expression"}
        if simple or _text(value) in {"{}", "std::nullopt", "*this", *self.macros.defaults}:
            return
        around = (
            Insertion(node.start_byte, f"{{ if ({CHOSEN}) return {{}}; "),
            Insertion(node.end_byte, " }", closes=True),
        )
        self._add("default returned", node, "return {};", around)

    def on_break_statement(self, node: Node) -> None:
        if not _is_only_statement_of_if(node):
            self._removal("statement removed", node)

    on_continue_statement = on_break_statement

    def on_throw_statement(self, node: Node) -> None:
        block = node.parent
        function = block.parent if block is not None else None
        # Without a throw at its end, a function would return no value.
        last = block is not None and block.named_children[-1] == node
        if not (last and function is not None and function.type == "function_definition"):
            self._removal("statement removed", node)

    def on_declaration(self, node: Node) -> None:
        """An object that is not named after its declaration is a guard: it exists for the effect of its lifetime."""
        kind, declarator = node.child_by_field_name("type"), node.child_by_field_name("declarator")
        if kind is None or declarator is None or kind.type in {"primitive_type", "placeholder_type_specifier"}:
            return
        initialized = declarator.type in {"init_declarator", "function_declarator"}
        name = declarator.child_by_field_name("declarator") if initialized else declarator
        if name is None or name.type != "identifier" or _is(node, "static") or _is_used_after(node, _text(name)):
            return
        operator = "lock removed" if _LOCK.search(_text(kind)) else "guard removed"
        wrapped = [
            Insertion(kind.start_byte, "weaver_mutants::Maybe<"),
            Insertion(kind.end_byte, ">", closes=True),
        ]
        initial = declarator.child_by_field_name("value") or declarator.child_by_field_name("parameters")
        if initial is None and declarator.type == "identifier":
            wrapped.append(Insertion(name.end_byte, f"({CHOSEN})", closes=True))
        elif initial is not None and initial.type in {"argument_list", "parameter_list", "initializer_list"}:
            comma = ", " if initial.named_child_count else ""
            wrapped.append(Insertion(initial.start_byte + 1, f"{CHOSEN}{comma}"))
        else:
            return
        self._add(operator, node, "", wrapped)

    def _registration(self, node: Node) -> None:
        """A registration by a macro outside any function."""
        call = node.named_children[0] if node.named_child_count else None
        name = _text(call.child_by_field_name("function")) if call is not None else ""
        if call is None or name not in {*self.macros.registrations, *self.macros.optional}:
            return
        arguments = _arguments(call)
        if name in self.macros.optional:
            changed = (
                Insertion(call.start_byte, "WEAVER_OPTIONAL_"),
                Insertion(arguments[0].start_byte, f"{CHOSEN}, "),
            )
        else:
            argument = arguments[self.macros.registrations[name]]
            changed = (
                Insertion(argument.start_byte, f"({CHOSEN} ? nullptr : ("),
                Insertion(argument.end_byte, "))", closes=True),
            )
        self._add("registration removed", call, "", changed)

    # Conditions.

    def on_if_statement(self, node: Node) -> None:
        if any(child.type == "constexpr" for child in node.children):
            return
        clause = node.child_by_field_name("condition")
        value = clause.child_by_field_name("value") if clause is not None else None
        if value is None:
            return
        if value.type == "declaration":
            self._declared_condition(value)
            return
        alternative = node.child_by_field_name("alternative")
        removes = alternative is None and _removable(node.child_by_field_name("consequence"))
        self._constant_condition(value, "guarded statement removed" if removes else "condition false")

    def _constant_condition(self, node: Node, never: str = "condition false") -> None:
        decided = []
        if _logical(node) != "&&":
            decided.append(("condition true", "true"))
        if _logical(node) != "||":
            decided.append((never, "false"))
        for operator, value in decided:
            around = (
                Insertion(node.start_byte, f"({CHOSEN} ? {value} : bool("),
                Insertion(node.end_byte, "))", closes=True),
            )
            self._add(operator, node, value, around)

    def _declared_condition(self, node: Node) -> None:
        """Ignores the error of ``if (const Error error = call())``."""
        declarator = node.child_by_field_name("declarator")
        while declarator is not None and declarator.type != "identifier":
            declarator = declarator.child_by_field_name("declarator")
        if declarator is not None:
            added = Insertion(node.end_byte, f"; !{CHOSEN} && bool({_text(declarator)})", closes=True)
            self._add("condition false", node, f"{_text(node)}; false", [added])

    def on_while_statement(self, node: Node) -> None:
        clause = node.child_by_field_name("condition")
        value = clause.child_by_field_name("value") if clause is not None else None
        if value is not None and value.type not in {"declaration", *_LITERALS}:
            self._choice("condition false", value, "false")

    def on_for_statement(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        # An assignment here is a declaration whose type is hidden from tree-sitter.
        if condition is not None and condition.type != "assignment_expression":
            self._choice("condition false", condition, "false")

    def on_conditional_expression(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        if condition is not None:
            self._constant_condition(condition)

    # Expressions.

    def on_binary_expression(self, node: Node) -> None:
        left, operator, right = node.child_by_field_name("left"), _operator(node), node.child_by_field_name("right")
        if left is None or right is None:
            return
        if _logical(node):
            # The left operand of a && b && c is a && b, whose operands are removed one by one.
            if _logical(left) != _logical(node):
                self._choice("operand removed", node, f"bool({_text(right)})")
            self._choice("operand removed", node, f"bool({_text(left)})")
        elif operator in _OTHER and not (operator in {"==", "!="} and self._is_decided(node)) and not _makes_text(node):
            name = _NAMES.get(operator[0], "arithmetic") if operator not in {"<<", ">>"} else "shift"
            other = _OTHER[operator]
            self._choice(name, node, f"({_text(left)}) {other} ({_text(right)})")

    def on_unary_expression(self, node: Node) -> None:
        if _operator(node) in {"!", "-", "~", "not"} and not self._is_decided(node):
            self._choice("negation removed", node, _text(node.child_by_field_name("argument")))

    def on_number_literal(self, node: Node) -> None:
        if node.parent is not None and node.parent.type == "unary_expression" and _operator(node.parent) == "-":
            return
        text = _text(node)
        self._choice("literal", node, "0" if text == "1" else f"{text} + 1" if text != "0" else "1")

    def on_true(self, node: Node) -> None:
        if not self._is_decided(node):
            self._choice("literal", node, "false" if node.type == "true" else "true")

    on_false = on_true

    def on_call_expression(self, node: Node) -> None:
        name = _text(node.child_by_field_name("function"))
        arguments = _arguments(node)
        printed = any(argument.type == "string_literal" and "%" in _text(argument) for argument in arguments)
        if printed or _MACRO.fullmatch(name) or self._registers(name):
            return
        for index, (one, other) in enumerate(pairwise(arguments)):
            if one.type in _SWAPPED and other.type in _SWAPPED and _text(one) != _text(other):
                swapped = [*arguments[:index], other, one, *arguments[index + 2 :]]
                self._choice("arguments swapped", node, f"{name}({', '.join(_text(each) for each in swapped)})")

    # Properties of nodes.

    def _is_check(self, called: str) -> bool:
        return re.fullmatch(self.macros.checks, called) is not None

    def _registers(self, called: str) -> bool:
        return re.fullmatch(self.macros.registering, called) is not None

    def _is_decided(self, node: Node) -> bool:
        """Whether a node is a whole condition or an operand of one, so that other mutants make it true and false."""
        parent = node.parent
        while parent is not None and parent.type == "parenthesized_expression":
            node, parent = parent, parent.parent
        if parent is None:
            return False
        if parent.type in {"condition_clause", "for_statement"} or _logical(parent):
            return True
        if parent.type == "conditional_expression":
            return parent.child_by_field_name("condition") == node
        call = parent.parent
        if parent.type != "argument_list" or call is None or call.type != "call_expression":
            return False
        return self._is_check(_text(call.child_by_field_name("function"))) and _arguments(call)[0] == node


def _logical(node: Node) -> str:
    """``&&`` or ``||`` where a node is of that kind, otherwise empty."""
    while node.type == "parenthesized_expression" and node.named_child_count == 1:
        node = node.named_children[0]
    operator = _operator(node) if node.type == "binary_expression" else ""
    return {"&&": "&&", "and": "&&", "||": "||", "or": "||"}.get(operator, "")


def _makes_text(node: Node) -> bool:
    """Whether a node writes to a stream or concatenates strings, so that it neither shifts nor adds."""
    kinds = {"string_literal", "char_literal", "raw_string_literal"}
    return _operator(node) in {"<<", ">>", "+"} and any(
        child.type in kinds or (child.type == "binary_expression" and _makes_text(child)) for child in node.children
    )


def _removable(body: Node | None) -> bool:
    """Whether the body of an if is one statement whose removal is equivalent to a false condition."""
    if body is None:
        return False
    statements = (
        [child for child in body.named_children if child.type != "comment"]
        if body.type == "compound_statement"
        else [body]
    )
    if len(statements) != 1:
        return False
    kind = statements[0].type
    bare = kind == "return_statement" and statements[0].named_child_count == 0
    return bare or kind in {"expression_statement", "break_statement", "continue_statement"}


def _is_only_statement_of_if(node: Node) -> bool:
    body = node.parent if node.parent is not None and node.parent.type == "compound_statement" else node
    parent = body.parent
    if parent is None or parent.type != "if_statement" or parent.child_by_field_name("alternative") is not None:
        return False
    condition = parent.child_by_field_name("condition")
    value = condition.child_by_field_name("value") if condition is not None else None
    mutated = value is not None and not any(child.type == "constexpr" for child in parent.children)
    return mutated and parent.child_by_field_name("consequence") == body and _removable(body)


def _is_used_after(declaration: Node, name: str) -> bool:
    block = declaration.parent
    if block is None or block.type != "compound_statement" or block.text is None:
        return True
    rest = block.text[declaration.end_byte - block.start_byte :].decode()
    return re.search(rf"\b{re.escape(name)}\b", rest) is not None
