"""Compares the table of a page with the installed PyTorch and with the running device module.

    python examples/frontend_contract.py docs/source/accelerator/frontend.md [_initialized]

It searches PyTorch's Python code for names that are looked up on a device module, and prints each name that the table
lacks, each row that no longer fits, and the number of rows of each kind. For a given name, it repeats this with a table
in which that name is misspelled.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

TORCH = Path(torch.__file__).parent
RELEASE = tuple(int(number) for number in torch.__version__.split(".")[:2])


@dataclass(frozen=True)
class Row:
    """One name of the table: where PyTorch looks it up, and whether the device module has it."""

    name: str
    files: tuple[str, ...]
    state: str


def rows(page: str) -> list[Row]:
    """The rows of all tables of a page whose last column says `provided` or `absent`."""
    found = []
    for line in page.splitlines():
        since = re.search(r" \{since\}`(\d+)\.(\d+)`", line)  # a row about a later release than this one
        if since and (int(since[1]), int(since[2])) > RELEASE:
            continue
        line = re.sub(r" \{(?:since|until)\}`[\d.]+`", "", line)
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `") and (state := re.match("provided|absent", cells[-1])):
            names, files = re.findall(r"`(\w+)", cells[0]), re.findall(r"`([\w./]+\.(?:py|so))`", cells[1])
            found += [Row(name, tuple(files), state.group()) for name in names]
    return found


# LITERALINCLUDE START: frontend-contract-scan
DEVICE_MODULE = ("get_device_module", "_get_device_handle")  # functions that return one
HOLDERS = ("device_module", "device_mod", "device_handle")  # suffixes of variables that hold one


def is_device_module(node: ast.expr, variables: set[str]) -> bool:
    """Whether an expression in PyTorch's code evaluates to a device module."""
    if not isinstance(node, ast.Call):
        return ast.unparse(node) in variables or ast.unparse(node).endswith(HOLDERS)
    if ast.unparse(node.func) == "getattr":  # getattr(torch, device.type)
        return ast.unparse(node.args[0]) == "torch" and bool(re.search("device|backend", ast.unparse(node.args[1])))
    return ast.unparse(node.func).endswith(DEVICE_MODULE)


def looked_up(tree: ast.Module) -> Iterator[str]:
    """The names that one file looks up on a device module."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Assign, ast.Attribute, ast.Call))]
    values = {ast.unparse(n.targets[0]): n.value for n in nodes if isinstance(n, ast.Assign)}
    variables = {
        name for name, value in values.items() if isinstance(value, ast.Call) and is_device_module(value, set())
    }
    for node in nodes:
        if isinstance(node, ast.Attribute) and is_device_module(node.value, variables):
            yield node.attr
        elif isinstance(node, ast.Call):
            function, arguments = ast.unparse(node.func), node.args
            if function in ("getattr", "hasattr") and is_device_module(arguments[0], variables):
                name = values.get(ast.unparse(arguments[1]), arguments[1])  # a string, or a variable that holds one
                if isinstance(name, ast.Constant):
                    yield str(name.value)
            elif function == "_get_custom_mod_func" and isinstance(arguments[0], ast.Constant):
                yield str(arguments[0].value)
            elif function == "_get_device_attr":  # _get_device_attr(lambda m: m.current_device())
                yield from (n.attr for n in ast.walk(arguments[0]) if isinstance(n, ast.Attribute))


# LITERALINCLUDE END: frontend-contract-scan


@functools.cache
def lookups() -> dict[str, set[str]]:
    """The files of PyTorch that look up each name."""
    found: dict[str, set[str]] = {}
    for file in TORCH.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if re.search(r"device_mod|device_handle|getattr\(\s*torch,|_get_device_attr|_get_custom_mod_func", text):
            for name in looked_up(ast.parse(text)):
                found.setdefault(name, set()).add(file.relative_to(TORCH).as_posix())
    del found["__wrapped__"]  # of the function get_device_module, not of its result
    return found


# LITERALINCLUDE START: frontend-contract-faults
def faults(table: list[Row]) -> Iterator[str]:
    """What is wrong with the table."""
    module, scan = torch.get_device_module("openreg"), lookups()
    for name in sorted(set(scan) - {row.name for row in table}):
        yield f"{name} is not in the table; looked up in {', '.join(sorted(scan[name]))}"
    for row in table:
        known = scan.get(row.name)
        for file in row.files:
            # The scan does not read compiled files, nor names that PyTorch puts together: these need only occur there.
            by_scan = known if file.endswith(".py") else None
            if not (file in by_scan if by_scan else row.name.encode() in (TORCH / file).read_bytes()):
                yield f"{row.name} is not looked up in torch/{file}"
        if hasattr(module, row.name) != (row.state == "provided"):
            yield f"{row.name} is {row.state} in the table, and {module.__name__} says otherwise"


# LITERALINCLUDE END: frontend-contract-faults


def report(page: str) -> None:
    """Prints the faults, and the number of rows of each kind."""
    table = rows(page)
    for fault in faults(table):
        print(fault)
    by_pytorch = Counter(row.state for row in table if row.files)
    by_users = Counter(row.state for row in table if not row.files)
    print(f"looked up by PyTorch: {by_pytorch['provided']} provided, {by_pytorch['absent']} absent")
    print(f"expected by users: {by_users['provided']} provided, {by_users['absent']} absent")


def main() -> None:
    """Reports on the page, and again with names misspelled."""
    page = Path(sys.argv[1]).read_text(encoding="utf-8")
    report(page)
    for name in sys.argv[2:]:
        print(f"with {name} misspelt")
        report(page.replace(f"| `{name}` |", f"| `{name}_` |"))


if __name__ == "__main__":
    main()
