"""The parts of a C++ file: its declarations and definitions, in their namespaces.

It reads what clang-format has laid out and a compiler has accepted, and knows no more of C++ than where a part ends and
which name it gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from docs._ext.parts import Part

# Comments and literals, in which no brace counts. A quote between digits separates them.
_SILENT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
_FOR_C_TOO = re.compile(r"^#ifdef __cplusplus\n(.*?)(?:^#else\n.*?)?^#endif[^\n]*\n", re.MULTILINE | re.DOTALL)
_DIRECTIVE = re.compile(r"#[ \t]*(\w+)(?:[^\\\n]|\\.)*", re.DOTALL)
_SCOPE = re.compile(r'((?:inline\s+)?namespace\b[\w:\s]*|extern\s*"C"\s*)\{')
_WORD = re.compile(r"(?<!\w)[A-Za-z_]\w*")
_USED = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")
_TEMPLATE = re.compile(r"template\s*<")
_ATTRIBUTE = re.compile(
    r"\[\[.*?\]\]|\b(?:alignas|decltype|noexcept|__attribute__|requires)\s*\(+[^()]*(?:\([^()]*\))?\)+"
)
_USING = re.compile(r"using\s+(?:\w+::)*(\w+)\s*[=;]")
_TYPE = re.compile(r"(typedef\s+)?(\w*enum|\w*ENUM|class|struct|union|concept)\s+(class\s+)?(?:[A-Z_]+\s+)?(\w*)")
# These end with a semicolon, whatever braces they have. Others end with their body, unless one of the signs follows.
_WITH_SEMICOLON = re.compile(r"(?:typedef|class|struct|union|enum|namespace|using)\b")
_GOES_ON = (";", ",", "{")


def code(text: str) -> str:
    """Return the text as C++ has it where it serves C too. Every character stands where it stood."""

    def first_branch(match: re.Match[str]) -> str:
        before, kept = match.start(1) - match.start(), match[1]
        return _blank(match[0][:before]) + kept + _blank(match[0][before + len(kept) :])

    return _FOR_C_TOO.sub(first_branch, text)


def includes(text: str) -> list[str]:
    """Return the lines that include, with a blank line where a group of them ends."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("#include "):
            lines.append(line)
        elif lines and lines[-1]:
            lines.append("")
    return lines


def parts(text: str) -> Iterator[Part]:
    """Yield the parts of a file, as ``code`` gives it."""
    bare = _SILENT.sub(lambda match: match[0] if match[0] == '"C"' else _blank(match[0]), text)
    scopes: tuple[str, ...] = ()
    start = at = 0
    while at < len(bare):
        if bare[at].isspace():
            at += 1
        elif directive := _DIRECTIVE.match(bare, at):
            if directive[1] == "define":
                words = _WORD.findall(directive[0])
                yield Part(start, at, directive.end(), frozenset(words[1:2]), frozenset(words[2:]), scopes)
            at = start = directive.end()
        elif bare[at] == "}":
            scopes = scopes[:-1]
            at = start = _line_end(bare, at + 1)
        elif scope := _SCOPE.match(bare, at):
            scopes = (*scopes, scope[1].strip())
            at = start = scope.end()
        else:
            end = _end(bare, at)
            own = bare[at:end]
            directive_of_names = own.startswith("using namespace ")
            names, uses = frozenset(_names(own)), frozenset(_USED.findall(own))
            yield Part(start, at, _line_end(bare, end), names, uses, scopes, everywhere=directive_of_names)
            at = start = _line_end(bare, end)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _line_end(bare: str, at: int) -> int:
    """The end of the line, where nothing but a comment follows."""
    end = bare.find("\n", at)
    return at if end < 0 or bare[at:end].strip() else end


def _end(bare: str, at: int) -> int:
    """The end of the part that begins at a character: behind its semicolon, or behind the brace of its body."""
    depth = 0
    head = _without_template(bare, at)
    to_semicolon = _WITH_SEMICOLON.match(bare, head) is not None
    for index in range(head, len(bare)):
        sign = bare[index]
        if sign in "({[":
            depth += 1
        elif sign in ")}]":
            depth -= 1
            if depth < 0:  # that of the scope around it: this is a macro without a semicolon
                return at + len(bare[at:index].rstrip())
            if sign == "}" and depth == 0 and not to_semicolon and not bare[index + 1 :].lstrip().startswith(_GOES_ON):
                return index + 1
        elif sign == ";" and depth == 0:
            return index + 1
        elif sign == "=" and depth == 0 and "operator" not in bare[head:index]:
            to_semicolon = True
    return len(bare)


def _names(bare: str) -> Iterator[str]:
    """The names that a part gives to the others of its file."""
    head = _ATTRIBUTE.sub(" ", bare)
    head = head[_without_template(head, 0) :].strip()
    if using := _USING.match(head):
        yield using[1]
        return
    kind = _TYPE.match(head)
    opened = head.find("{")
    if kind and (kind[2] == "concept" or opened >= 0 or re.fullmatch(r"[^(=]*", head)):
        yield kind[4]
        if "enum" in kind[2].lower() and not kind[3]:
            yield from _WORD.findall(head[opened:])
        yield from _WORD.findall(head.rpartition("}")[2])[:1]  # a variable, or the name of a typedef
        if kind[1]:
            yield from _WORD.findall(head)[-1:]
        if opened >= 0 and "(" not in head[:opened]:
            return
    words = [word for word in _WORD.findall(_before_arguments(head)) if word not in ("const", "operator")]
    qualified = re.search(r"::\s*~?\w+\s*$", _before_arguments(head))
    if len(words) > 1 and not qualified:
        yield words[-1]


def _without_template(bare: str, at: int) -> int:
    """Where a part begins, behind the parameters of a template."""
    while _TEMPLATE.match(bare, at):
        depth = 0
        while (sign := bare[at]) != ">" or depth > 1:
            depth += (sign == "<") - (sign == ">")
            at += 1
        at += 1
        at += len(bare[at:]) - len(bare[at:].lstrip())
    return at


def _before_arguments(head: str) -> str:
    """The text up to the name of a function or a variable: without arguments, value, and the arguments of types."""
    kept: list[str] = []
    depth = 0
    for index, sign in enumerate(head):
        if sign == "<" and re.search(r"\w\s*$", head[:index]):
            depth += 1
        elif sign == ">" and depth:
            depth -= 1
        elif depth == 0:
            if sign in "({=;[":
                break
            kept.append(sign)
    return "".join(kept)
