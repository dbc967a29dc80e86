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
# `size_t` is a primitive type to tree-sitter, and may be one of the file.
_USED = Query(LANGUAGE, f"[{' '.join(f'({kind})' for kind in _IDENTIFIERS)} (primitive_type) (preproc_arg)] @used")
# How the kinds of nodes end in which a part gives names, besides the nodes that are its names and its declarators.
_GIVING = ("declaration", "definition", "instantiation", "specifier", "declarator", "enumerator", "enumerator_list")
# What belongs to a part on its last line.
_REST = re.compile(r"[ \t]*;?[ \t]*(?://[^\n]*)?(?=\n|$)")


def includes(text: str) -> list[str]:
    """Return the lines that include, with a blank line where a group of them ends."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("#include "):
            lines.append(line)
        elif lines and lines[-1]:
            lines.append("")
    return lines


@cache
def parts(text: str) -> tuple[Part, ...]:
    """Return the parts of a file, as ``cpp_tree.code`` gives it."""
    return tuple(_parts(parse(text).root_node, text, ()))


def _parts(around: Node, text: str, scopes: tuple[str, ...]) -> Iterator[Part]:
    start = around.start_byte
    for index, node in enumerate(around.children):
        body = node.child_by_field_name("body")
        begin, end = node.start_byte, _end(node, text)
        if node.type == "comment" or begin < start:
            continue
        if node.type.startswith(("preproc_if", "preproc_el")):
            yield from _parts(node, text, scopes)
        elif body is not None and body.type == "declaration_list":
            yield from _parts(body, text, (*scopes, text[begin : body.start_byte].strip()))
        elif node.type in {"preproc_def", "preproc_function_def"}:
            _, name, *words = _WORD.findall(text[begin:end])
            yield Part(start, begin, end, frozenset([name]), frozenset(words), scopes)
        # A field of what is around it is the condition of a branch.
        elif node.is_named and not node.type.startswith("preproc_") and not around.field_name_for_child(index):
            names, uses = frozenset(_names(node, text)), frozenset(_uses(node, text))
            everywhere = text.startswith("using namespace ", begin)
            yield Part(start, begin, end, names, uses, scopes, everywhere)
        start = end


def _end(node: Node, text: str) -> int:
    """Return where a part ends: at the end of its line, where nothing but a comment follows."""
    last = node.children[0] if node.children and node.children[-1].is_missing else node
    end = last.end_byte - text.endswith("\n", 0, last.end_byte)
    rest = _REST.match(text, end)
    return rest.end() if rest else end


def _uses(node: Node, text: str) -> Iterator[str]:
    """The names that a part reads; not those behind a dot or an arrow."""
    for used in QueryCursor(_USED).captures(node).get("used", ()):
        yield from _WORD.findall(text[used.start_byte : used.end_byte])
    yield from (macro for _, macro in MACRO.findall(text[node.start_byte : node.end_byte]))


def _names(node: Node, text: str) -> Iterator[str]:
    """The names that a part gives to the others of its file: not those of members that it defines for its class."""
    kinds = {child.type for child in node.children}
    if node.type in _IDENTIFIERS:
        yield text[node.start_byte : node.end_byte]
    elif node.type == "using_declaration":
        yield from _WORD.findall(text[node.start_byte : node.end_byte])[-1:] if "namespace" not in kinds else ()
    elif not _is_member(node) and not _is_macro(node):
        for index, child in enumerate(node.children):
            named = node.field_name_for_child(index) in {"name", "declarator"} or child.type.endswith(_GIVING)
            # Those of an enumeration with ``class`` are reached through its name.
            if named and not (child.type == "enumerator_list" and "class" in kinds):
                yield from _names(child, text)


def _is_member(node: Node) -> bool:
    """Whether a node names a function or a variable in its class. The name of a nested type is used without it."""
    around = node.parent.type if node.parent is not None else ""
    return node.type == "qualified_identifier" and not around.endswith(("specifier", "qualified_identifier"))


def _is_macro(node: Node) -> bool:
    """Whether a node is a macro with a body, which to tree-sitter is a function that returns nothing."""
    return node.type == "function_definition" and node.child_by_field_name("type") is None
