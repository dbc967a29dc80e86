"""Shows calls of ``run_example`` as a reader would make them: as shell commands with their output.

A page calls ``run_example("examples/x.py", "a", env={"N": "1"})``, a function of the weaver that a reader does not
have. HTML shows the call as ``$ N=1 python examples/x.py a``, which runs in the root of the repository with the Python
of the build. The text of the page, which is executed and compared, does not change.
"""

from __future__ import annotations

import ast
import doctest
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from weaver.run.examples import is_executed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sphinx.application import Sphinx

_PARSER = doctest.DocTestParser()
_FUNCTION = "run_example"


@dataclass(frozen=True)
class Part:
    """Lines of a block that are shown together: Python as it is, or a shell transcript."""

    language: str
    text: str


class Transcripts(SphinxPostTransform):
    """Replaces the examples that run a script by transcripts."""

    default_priority = 4  # before the code is highlighted
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Replace the blocks that call ``run_example``."""
        for node in list(self.document.findall(is_executed)):
            if not isinstance(node, nodes.Element) or node.get("testnodetype", "doctest") != "doctest":
                continue
            found = list(parts(node.astext(), node.get("test")))
            if any(part.language == "console" for part in found):
                node.replace_self([_shown(node, part) for part in found])


def _shown(node: nodes.Element, part: Part) -> nodes.literal_block:
    block = nodes.literal_block(part.text, part.text, language=part.language, classes=list(node["classes"]))
    block.source, block.line = node.source, node.line
    return block


def parts(code: str, executed: str | None = None) -> Iterator[Part]:
    """Yield the parts of a doctest block in order; nothing for a malformed block, which the gate refuses.

    Sphinx shows empty lines and no options. ``executed`` has ``<BLANKLINE>`` and the options, and alone tells where an
    output ends.
    """
    try:
        lines, examples = code.splitlines(), _PARSER.get_examples(executed or code)
    except ValueError:
        return
    starts = [*(example.lineno for example in examples), len(lines)]
    waiting: list[tuple[str, str]] = []
    for example, end in zip(examples, starts[1:], strict=True):
        command = None if example.exc_msg else shell_command(example.source)
        if command is None:
            waiting.append(("pycon", "\n".join(lines[example.lineno : end])))
        else:
            output = example.want.replace("<BLANKLINE>\n", "\n")
            waiting.append(("console", f"$ {command}\n{output}".rstrip("\n")))
    for number, (language, text) in enumerate(waiting):
        if number and language == waiting[number - 1][0]:
            continue
        same = [text]
        for other_language, other in waiting[number + 1 :]:
            if other_language != language:
                break
            same.append(other)
        yield Part(language, "\n".join(same).strip("\n"))


def shell_command(source: str) -> str | None:
    """Return the command for a call of ``run_example`` with constants, or for a loop over one; None for other code."""
    (statement, *others) = ast.parse(source).body
    if others:
        return None
    if isinstance(statement, ast.Expr):
        return _call(statement.value, {})
    if not isinstance(statement, ast.For) or statement.orelse or len(statement.body) != 1:
        return None
    body, values = statement.body[0], _words(statement.iter)
    if not isinstance(statement.target, ast.Name) or not isinstance(body, ast.Expr) or values is None:
        return None
    name = statement.target.id
    command = _call(body.value, {name: f'"${name}"'})
    return None if command is None else f"for {name} in {shlex.join(values)}; do {command}; done"


def _call(node: ast.expr, names: Mapping[str, str]) -> str | None:
    """A command; ``names`` are the shell variables that may occur among its words."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != _FUNCTION:
        return None
    words = [_word(argument, names) for argument in node.args]
    settings: list[str | None] = []
    for keyword in node.keywords:
        if keyword.arg == "status":  # which a shell does not print
            continue
        if keyword.arg != "env" or not isinstance(keyword.value, ast.Dict):
            return None
        for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
            name, word = key.value if isinstance(key, ast.Constant) else None, _word(value, names)
            settings.append(f"{name}={word}" if isinstance(name, str) and word is not None else None)
    complete = [word for word in (*settings, "python", *words) if word is not None]
    return " ".join(complete) if len(complete) == len(settings) + 1 + len(words) else None


def _word(node: ast.expr, names: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return shlex.quote(node.value)
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _words(node: ast.expr) -> list[str] | None:
    if not isinstance(node, ast.Tuple | ast.List):
        return None
    values = [element.value for element in node.elts if isinstance(element, ast.Constant)]
    words = [value for value in values if isinstance(value, str)]
    return words if len(words) == len(node.elts) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the step."""
    app.add_post_transform(Transcripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
