"""A sandbox whose sources contain all mutants, chosen at run time, so that one build serves them all.

Mutants that do not compile are identified by the compiler's messages and left out; the rest is compiled again.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from weaver.configuration import Configuration
from weaver.fault import Fault, say
from weaver.proof.mutants import Mutant, Woven, weave
from weaver.proof.sandbox import BUILD_PROGRAMS, Sandbox
from weaver.run import cached_compiler

_HERE = Path(__file__).parent
_MESSAGE = re.compile(r"^(?P<path>/[^:\n]+):(?P<line>\d+):(?P<column>\d+):\s+(?P<kind>[\w ]+)", re.MULTILINE)
# A mutant in an expression that the compiler evaluates: what GCC and clang say of the call (see weaver_mutant.h).
_EVALUATED = re.compile(r"(?:expansion of|in call to) \S(?:\w+::)*weaver_mutant\((?P<number>\d+)\)")
# Warnings are of no use here. A mutant may have a different type than the original, as long as it compiles.
_OPTIONS = "-w -Wno-narrowing -fmax-errors=0 -fdiagnostics-color=never"


class Schemata(Sandbox):
    """Weaves ``mutants``, by number, into the sources in ``texts``, by path."""

    def __init__(
        self, configuration: Configuration, folder: Path, texts: Mapping[str, bytes], mutants: Mapping[int, Mutant]
    ) -> None:
        super().__init__(configuration, folder)
        self.texts = texts
        self.mutants = dict(mutants)
        self.refused: dict[int, str] = {}
        self.woven: dict[str, Woven] = {}
        # Maps paths to the digest of the source whose text with mutants is in the build.
        self._kept_file = self.folder / "woven.json"
        # What does not compile, for further runs: by path, while the source is the same.
        self._refused_file = self.folder / "refused.json"
        self._known_refused: dict[str, dict[str, Any]] = {}
        self._path_of = {number: one.path for number, one in mutants.items()}
        self._leave_out_known()
        self._weave({path: text for path, text in texts.items() if any(one.path == path for one in mutants.values())})

    def _leave_out_known(self) -> None:
        known = json.loads(self._refused_file.read_text(encoding="utf-8")) if self._refused_file.is_file() else {}
        self._known_refused = {path: one for path, one in known.items() if one["text"] == self._state(path)}
        for one in self._known_refused.values():
            self.refused |= {int(number): why for number, why in one["refused"].items() if int(number) in self.mutants}
        for number in self.refused:
            del self.mutants[number]

    def _state(self, path: str) -> str:
        """A digest of what a mutant is woven into."""
        return _digest(self.texts.get(path, b"") + (_HERE / "weaver_mutant.h").read_bytes())

    def _remember_refused(self) -> None:
        for number, why in self.refused.items():
            path = self._path_of[number]
            one = self._known_refused.setdefault(path, {"text": self._state(path), "refused": {}})
            one["refused"][str(number)] = why
        self._refused_file.write_text(json.dumps(self._known_refused), encoding="utf-8")

    def _weave(self, paths: Iterable[str]) -> None:
        for path in paths:
            mutants = {number: one for number, one in self.mutants.items() if one.path == path}
            name = "_weaver_mutant" if path.endswith(".py") else "weaver_mutant"
            self.woven[path] = weave(self.texts[path], mutants, lambda number, name=name: f"{name}({number})")  # type: ignore[misc]

    def restore(self, name: str) -> None:
        """Makes one file the same as in the working tree, except for its mutants.

        An unchanged file keeps the mutants of an earlier run: none of them is chosen, and the files that include it
        need no recompilation.
        """
        if name not in self.woven:
            if self._kept.get(name) != _digest(self.original(name).read_bytes()):
                self._kept.pop(name, None)
                super().restore(name)
            return
        target, text = self.tree / name, self.woven[name].text
        if not (target.is_file() and target.read_bytes() == text):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)

    def make(self) -> None:
        """Builds until all remaining mutants compile. Throws: ``Fault`` when the sources fail without them."""
        self._kept: dict[str, str] = {}
        if self._kept_file.is_file() and (self.folder / "complete").exists():
            self._kept = json.loads(self._kept_file.read_text(encoding="utf-8"))
        gone = self.woven.keys() | set(self.configuration.mutants.left_out)
        self._kept = {path: digest for path, digest in self._kept.items() if path not in gone}
        self.folder.mkdir(parents=True, exist_ok=True)
        self._keep()
        self.prepare()
        (self.site_packages / "weaver_mutant.pth").write_text("import weaver_mutant\n", encoding="utf-8")
        shutil.copy(_HERE / "weaver_mutant.py", self.site_packages)
        header = self.folder / "weaver_mutant.h"
        if not header.exists() or header.read_bytes() != (_HERE / header.name).read_bytes():
            shutil.copy(_HERE / header.name, header)
        of_project = self.configuration.mutants.header
        forced = [header, *([self.tree / of_project] if of_project else [])]
        options = " ".join([*(f"-include {file}" for file in forced), _OPTIONS])
        # The compiler that examples find in CXX.
        self.compiler = cached_compiler.wrapper(self.folder / "compiled", ["c++", *shlex.split(options)])
        while True:
            try:
                mutated = self.configuration.build.mutated
                self.build(*(self.placed(word, options=options) for word in mutated), flags=["-k", "0"])
                self._compile_what_is_not_built()
                break
            except Fault as fault:
                self._leave_out(str(fault))
        # Not before: text that does not compile must not be kept.
        self._kept |= {path: _digest(self.texts[path]) for path in self.woven}
        self._keep()
        self._remember_refused()

    def _keep(self) -> None:
        self._kept_file.write_text(json.dumps(self._kept), encoding="utf-8")

    def _compile_what_is_not_built(self) -> None:
        """Compiles the sources of the package that only an example compiles. Throws: ``Fault``."""
        if not self.configuration.build.alone:
            return
        ninja = [str(BUILD_PROGRAMS / "ninja"), "-C", str(self.build_folder), "-t", "deps"]
        built = subprocess.run(ninja, capture_output=True, text=True, check=True).stdout
        for name in sorted(self.woven):
            if name.endswith(".cpp") and f"/{name}\n" not in built:
                command = [self.placed(word, source=name) for word in self.configuration.build.alone]
                ran = subprocess.run(command, cwd=self.tree, capture_output=True, text=True, check=False)
                if ran.returncode != 0:
                    raise Fault(ran.stderr)

    def _leave_out(self, messages: str) -> None:
        refused = {
            number: text
            for text, places in _errors(messages)
            for number in self._blame(places)
            if number in self.mutants
        }
        evaluated = {int(match["number"]) for match in _EVALUATED.finditer(messages)}
        refused |= dict.fromkeys(evaluated & self.mutants.keys(), "evaluated by the compiler")
        if not refused:
            raise Fault(f"the sources with their mutants do not compile, and no mutant is to blame:\n{messages}")
        self.refused |= refused
        changed = {self.mutants.pop(number).path for number in refused}
        self._weave(changed)
        say(f"left out {len(refused)} mutants that do not compile")
        for path in changed:
            self.restore(path)

    def _blame(self, places: list[tuple[str, int, int]]) -> set[int]:
        """The mutants that cause an error: the one at its place, otherwise those at the places in its notes."""
        for index, (path, line, column) in enumerate(places):
            woven = self.woven.get(path.removeprefix(f"{self.tree}/"))
            if woven is None:
                continue
            found = woven.mutant_at(line, column)
            if found is not None:
                return {found}
            if woven.mutants_on([line]) and index == len(places) - 1:
                return woven.mutants_on([line])
        lines = [(path.removeprefix(f"{self.tree}/"), line) for path, line, _ in places]
        return set().union(*(self.woven[path].mutants_on([line]) for path, line in lines if path in self.woven))


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _errors(messages: str) -> list[tuple[str, list[tuple[str, int, int]]]]:
    """The errors of a compiler, each with its place and the places of the notes before and after it."""
    found: list[tuple[str, list[tuple[str, int, int]]]] = []
    before: list[tuple[str, int, int]] = []
    for match in _MESSAGE.finditer(messages):
        if match["path"].endswith("/weaver_mutant.h"):
            before = []  # an expression that the compiler evaluates: the message names the mutant
            continue
        place = match["path"], int(match["line"]), int(match["column"])
        if match["kind"].strip().endswith("error"):
            text = messages[match.end() : messages.find("\n", match.end())]
            found.append((text.strip(": "), [place, *before]))
            before = []
        else:
            before.append(place)
            if found:
                found[-1][1].append(place)
    return found
