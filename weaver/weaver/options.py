"""The options of the commands.

They are read without Sphinx and whatever else a command needs, so that a wrong one is refused before that is installed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from pathlib import Path

from weaver.configuration import Configuration
from weaver.fault import Fault


def parse(configuration: Configuration, command: str, arguments: list[str]) -> argparse.Namespace:
    """The options of a command. Throws: ``Fault`` for a page that does not exist, ``SystemExit`` like ``argparse``."""
    what, add = _COMMANDS[command]
    parser = argparse.ArgumentParser(prog=configuration.command(command), description=what)
    add(parser, configuration)
    options = parser.parse_args(arguments)
    check_names("page", getattr(options, "page", None) or (), pages(configuration))
    return options


def pages(configuration: Configuration) -> list[str]:
    """The names of all pages."""
    folder = configuration.root / configuration.pages
    found = (page for page in folder.rglob("*") if page.suffix in {".md", ".rst"})
    return sorted(page.relative_to(folder).with_suffix("").as_posix() for page in found)


def check_names(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Throws: ``Fault`` for an unknown name; it proposes a similar one, and lists all."""
    if unknown := sorted(set(names) - set(known)):
        similar = get_close_matches(unknown[0], known, n=1)
        meant = f"; is {similar[0]} meant? There are" if similar else "; there are"
        raise Fault(f"no {kind} {', '.join(unknown)}{meant} {', '.join(sorted(set(known) - {''}))}")


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"at least 1 is needed, got {text}")
    return int(text)


def _minutes(text: str) -> float:
    minutes = float(text)
    if not minutes >= 0:  # also of nan
        raise argparse.ArgumentTypeError(f"0 or more are needed, got {text}")
    return minutes


def _of_doctest(parser: argparse.ArgumentParser, configuration: Configuration) -> None:
    parser.add_argument("page", nargs="*", help="run these alone, such as accelerator/errors; without, all")
    default = Path(configuration.output, "doctest")
    parser.add_argument("--output", type=Path, default=default, help="a folder, relative to the root of the project")


def _of_proof(parser: argparse.ArgumentParser, _: Configuration) -> None:
    _add_pages(parser, "these pages, and no others")
    parser.add_argument("--all", action="store_true", help="also pages that run what they ran when they were measured")
    parser.add_argument(
        "--aged", action="store_true", help="also pages for which only a source has changed that they do not show"
    )
    parser.add_argument(
        "--sample", type=_count, metavar="N", help="only N pages whose result holds, aged ones first; no new result"
    )
    parser.add_argument("--seed", type=int, default=0, help="chooses the sample")


def _of_mutate(parser: argparse.ArgumentParser, _: Configuration) -> None:
    parser.add_argument(
        "--region", nargs="+", metavar="NAME", help="only these regions, or the listings of these paths"
    )
    _add_pages(parser, "only what these pages show")
    parser.add_argument("--changed", action="store_true", help="only what has changed since it was tried: the default")
    parser.add_argument("--all", action="store_true", help="also what has not changed")
    parser.add_argument(
        "--minutes",
        type=_minutes,
        default=math.inf,
        metavar="M",
        help="end after M minutes of trials: what is finished is written, and the rest is tried by the next run",
    )
    parser.add_argument(
        "--sample", type=_count, metavar="N", help="only N mutants that the result calls killed; no new result"
    )
    parser.add_argument("--seed", type=int, default=0, help="chooses the sample")
    parser.add_argument("--list", action="store_true", help="print the mutants, and try none")


def _add_pages(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--page", nargs="+", action="extend", metavar="NAME", help=f"{what} (accelerator/hooks)")


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser, Configuration], None]]] = {
    "doctest": ("Execute every snippet of the pages.", _of_doctest),
    "lock": ("Renew the lock on what the pages show of an installed package.", lambda _parser, _: None),
    "proof": ("Measure which displayed lines the examples of the pages execute.", _of_proof),
    "mutate": ("Plant small faults in the displayed lines, and count those that no example notices.", _of_mutate),
}
