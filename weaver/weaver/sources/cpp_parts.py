"""The parts of a C++ file: its declarations and definitions, in their namespaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from tree_sitter import Node, Query, QueryCursor

from weaver.sources.cpp_tree import LANGUAGE, MACRO, parse
from weaver.sources.parts import Part

_WORD = re.compile(r"(?<!\w)[A-Za-z_]\w*")
_IDENTIFIERS = ("identifier", "type_identifier", "namespace_identifier")
# To tree-sitter, `size_t` is a primitive type; the file may define it.
_USED = Query(LANGUAGE, f"[{' '.join(f'({kind})' for kind in _IDENTIFIERS)} (primitive_type) (preproc_arg)] @used")
# Suffixes of the node kinds that contain names given by a part, besides its names and declarators.
_GIVING = ("declaration", "definition", "instantiation", "specifier", "declarator", "enumerator", "enumerator_list")
# The rest of the last line that belongs to a part.
_REST = re.compile(r"[ \t]*;?[ \t]*(?://[^\n]*)?(?=\n|$)")


def includes(text: str) -> list[str]:
    """Return the include lines, with a blank line after each group of them."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("#include "):
            lines.append(line)
        elif lines and lines[-1]:
            lines.append("")
    return lines


@cache
def parts(text: str) -> tuple[Part, ...]:
    """Return the parts of a file, given as the result of ``cpp_tree.code``."""
    return tuple(_parts(parse(text).root_node, text, ()))


def _parts(around: Node, text: str, scopes: tuple[str, ...]) -> Iterator[Part]:
    start = around.start_byte
    for index, node in enumerate(around.children):
        body = node.child_by_field_name("body")
        begin, end = node.start_byte, _end(node, text)
        if node.type == "comment" or begin < start or _is_redefined(node, text):
            continue
        if node.type.startswith("preproc_if") and _is_of_macros(node):
            named = frozenset(_WORD.findall(text[one.start_byte : one.end_byte])[1] for one in _macros(node))
            yield Part(start, begin, end, named, frozenset(_WORD.findall(text[begin:end])) - named, scopes)
        elif node.type.startswith(("preproc_if", "preproc_el")):
            yield from _parts(node, text, scopes)
        elif body is not None and body.type == "declaration_list":
            yield from _parts(body, text, (*scopes, text[begin : body.start_byte].strip()))
        elif node.type in {"preproc_def", "preproc_function_def"}:
            _, name, *words = _WORD.findall(text[begin:end])
            yield Part(start, begin, end, frozenset([name]), frozenset(words), scopes)
        # A field of the surrounding node is the condition of a preprocessor branch.
        elif node.is_named and not node.type.startswith("preproc_") and not around.field_name_for_child(index):
            names, uses = frozenset(_names(node, text)), frozenset(_uses(node, text))
            everywhere = text.startswith("using namespace ", begin)
            yield Part(start, begin, end, names, uses, scopes, everywhere)
        start = end


def _is_redefined(node: Node, text: str) -> bool:
    """Whether a line removes a macro that the next one defines again: as a comment, it belongs to the definition."""
    following = node.next_sibling
    if node.type != "preproc_call" or following is None:
        return False
    words, defined = (_WORD.findall(text[one.start_byte : one.end_byte]) for one in (node, following))
    return words[:1] == ["undef"] and defined[:2] == ["define", *words[1:2]]


def _branches(node: Node) -> Iterator[Node]:
    """What a conditional contains, beside its conditions and comments."""
    for index, child in enumerate(node.children):
        if child.type.startswith("preproc_el"):
            yield from _branches(child)
        elif child.is_named and child.type != "comment" and not node.field_name_for_child(index):
            yield child


def _macros(node: Node) -> list[Node]:
    return [child for child in _branches(node) if child.type in {"preproc_def", "preproc_function_def"}]


def _is_of_macros(node: Node) -> bool:
    """Whether a conditional only defines macros. Without its conditions, a copy would define one of them twice."""
    return _macros(node) == list(_branches(node)) != []


def _end(node: Node, text: str) -> int:
    """Return the end of a part: the end of its line, if only a comment follows."""
    last = node.children[0] if node.children and node.children[-1].is_missing else node
    end = last.end_byte - text.endswith("\n", 0, last.end_byte)
    rest = _REST.match(text, end)
    return rest.end() if rest else end


def _uses(node: Node, text: str) -> Iterator[str]:
    """The names that a part uses, except those after a dot or an arrow."""
    for used in QueryCursor(_USED).captures(node).get("used", ()):
        yield from _WORD.findall(text[used.start_byte : used.end_byte])
    yield from (macro for _, macro in MACRO.findall(text[node.start_byte : node.end_byte]))


def _names(node: Node, text: str) -> Iterator[str]:
    """The names that a part gives to the others of its file, except class members that it defines."""
    kinds = {child.type for child in node.children}
    if node.type in _IDENTIFIERS:
        yield text[node.start_byte : node.end_byte]
    elif node.type == "using_declaration":
        yield from _WORD.findall(text[node.start_byte : node.end_byte])[-1:] if "namespace" not in kinds else ()
    elif not _is_member(node) and not _is_macro(node):
        for index, child in enumerate(node.children):
            named = node.field_name_for_child(index) in {"name", "declarator"} or child.type.endswith(_GIVING)
            # The enumerators of an ``enum class`` are accessed through its name.
            if named and not (child.type == "enumerator_list" and "class" in kinds):
                yield from _names(child, text)


def _is_member(node: Node) -> bool:
    """Whether a node names a function or variable of a class. The name of a nested type is used unqualified."""
    around = node.parent.type if node.parent is not None else ""
    return node.type == "qualified_identifier" and not around.endswith(("specifier", "qualified_identifier"))


def _is_macro(node: Node) -> bool:
    """Whether a node is a macro with a body, which tree-sitter reads as a function without a return type."""
    return node.type == "function_definition" and node.child_by_field_name("type") is None
