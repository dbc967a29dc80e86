"""A run of pages on a build with counters: which lines each example executes, and what fell back."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from weaver.configuration import Configuration
from weaver.fault import Fault, say
from weaver.proof import clang, probe
from weaver.proof.planned import Page
from weaver.proof.sandbox import Sandbox
from weaver.run import isolation
from weaver.sources import binding

# On a fast machine, the longest page takes 200 when it runs alone; the compiler with counters dominates.
SECONDS = 900.0

# How LLVM names a raw profile for the pattern %m: by a number that each library has.
_SIGNATURE = re.compile(r"(?:own-)?(?P<library>\d+)_")

Executed = dict[str, set[int]]


@dataclass
class Ran:
    """A page that ran: its seconds, the lines that each example executed, by the example's line, and what fell back."""

    seconds: float = 0.0
    examples: dict[int, Executed] = field(default_factory=dict)
    fell_back: list[str] = field(default_factory=list)

    def executed(self, path: str) -> set[int]:
        """The lines of a source that the page's examples executed."""
        return set().union(*(example.get(path, set()) for example in self.examples.values()))

    def sources(self, configuration: Configuration, root: Path) -> dict[str, str]:
        """The sources that the page's examples executed, and what these depend on, each with the hash of its code."""
        executed = {path for example in self.examples.values() for path in example}
        if any(configuration.covers(configuration.package, path) for path in executed):
            # Code that runs while the package is imported counts for no example, but all of them depend on it.
            executed |= set(configuration.measure.imported)
        for pattern, inputs in configuration.measure.inputs.items():
            if fnmatch.filter(executed, pattern):
                executed |= {file.relative_to(root).as_posix() for one in inputs for file in root.glob(one)}
        found = sorted(path for path in binding.included(configuration, executed, root) if not binding.is_built(path))
        return {path: digest for path in found if (digest := binding.code_digest(root / path))}


class Measurement:
    """One run over some pages. Throws: ``Fault`` when a build is needed and there is no clang."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.tools = clang.find_clang() if configuration.build.commands else None
        self.sandbox = Sandbox(configuration, configuration.root / configuration.sandboxes / "proof")
        self.work = configuration.root / configuration.output / "proof" / "raw"
        self.counted: dict[str, set[int]] = {}
        self.registrations: dict[str, set[int]] = {}
        self._object_of: dict[str, Path] = {}

    def prepare(self) -> None:
        """Prepares the sandbox, and builds with counters if a build is configured."""
        self.sandbox.prepare()
        start = f"__import__('weaver.proof.probe', fromlist=['start']).start({str(self.sandbox.tree)!r})"
        # Read after layers.pth, which puts the weaver on the path.
        (self.sandbox.site_packages / "probe.pth").write_text(
            f"import os; {probe.FOLDER!r} in os.environ and {start}\n", encoding="utf-8"
        )
        shutil.rmtree(self.work, ignore_errors=True)
        if self.tools:
            say(f"building with {Path(self.tools.compiler).name} and counters")
            self.sandbox.build(*self.configuration.build.counted, compiler=self.tools.compiler)
            self._write_compiler(self.tools)
            empty = self.work / "nothing.proftext"
            empty.write_text("", encoding="utf-8")
            clang.merge(self.tools, [empty], self._nothing)
            loaded = self.configuration.measure.loaded
            self.registrations = clang.registration_lines(
                self.tools, self._nothing, self._objects(), self._folders, loaded
            )

    def _write_compiler(self, tools: clang.Clang) -> None:
        """Writes the compiler that examples find in CXX: it adds counters to examples, and keeps a copy of each.

        Libraries built only from other sources get none: without a counter, their runtime complains on stderr.
        """
        for folder in ("objects", "copies"):
            (self.work / folder).mkdir(parents=True)
        listed = self.work / "coverage.list"
        executed = [f"*{folder}/*" for folder in self.configuration.executed]
        allowed = "".join(f"source:{pattern}=allow\n" for pattern in executed)
        listed.write_text(f"[clang]\ndefault:skip\n{allowed}", encoding="utf-8")
        options = (
            f"-fprofile-instr-generate -fcoverage-mapping -fprofile-list={listed} -mllvm -runtime-counter-relocation"
        )
        usual = os.environ.get("CXX") or "c++"  # for what is not measured: clang may lack a header, such as omp.h
        script = [
            "#!/bin/sh",
            f'case "$PWD $*" in {"|".join(executed)}) ;; *) exec {usual} "$@" ;; esac',
            # Only linked files are kept.
            f'case " $* " in *" -c "*|*" -E "*|*" -S "*) exec {tools.compiler} {options} "$@" ;; esac',
            f'{tools.compiler} {options} -Wl,--build-id "$@" || exit',
            'while [ $# -gt 1 ]; do if [ "$1" = -o ]; then',
            # Other pages read the folder meanwhile, so a file must be complete when it appears there.
            f'  copy=$(mktemp {self.work}/copies/XXXXXX) && cp "$2" "$copy" && mv "$copy" {self.work}/objects/',
            "fi; shift; done",
        ]
        compiler = self.work / "cxx"
        compiler.write_text("\n".join(script) + "\n", encoding="utf-8")
        compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)

    def run(self, page: Page) -> Ran:
        """Runs a page and reads which lines its examples executed. Throws: ``Fault`` when an example fails."""
        folder = self.work / page.name
        (folder / "own").mkdir(parents=True)
        environment = {
            probe.FOLDER: str(folder),
            probe.PROFILE: str(folder / "own" / probe.PATTERN),
            # A cached object has not gone through that compiler.
            **({"CXX": str(self.work / "cxx"), "CCACHE_DISABLE": "1"} if self.tools else {}),
        }
        started = time.monotonic()
        settings, python = self.configuration.run, self.sandbox.python
        with isolation.Pages(settings, self.sandbox.tree, python=python, environment=environment) as pages:
            outcome = pages.run(page.file, page.blocks, SECONDS, measure=folder)
        seconds = time.monotonic() - started
        if outcome.failures:
            texts = "\n".join(f"{page.file}:{failure.line}: {failure.text}" for failure in outcome.failures)
            raise Fault(f"examples failed on the measured build:\n{texts}")
        ran = Ran(round(seconds, 1))
        for line in (step["line"] for block in page.blocks for step in block["steps"]):
            ran.examples[line] = self._cxx_lines(folder / str(line))
        for line, path, number in self._python_lines(folder / probe.PYTHON):
            ran.examples[line].setdefault(path, set()).add(number)
        ran.fell_back = sorted(set(_read_lines(folder / probe.FELL_BACK)))
        if self.tools:
            # Of everything that is linked by now, whether it has run or not.
            found = clang.line_counts(self.tools, self._nothing, self._objects(), self._folders)
            for path, counts in found.items():
                self.counted.setdefault(path, set()).update(counts)
        return ran

    @property
    def _nothing(self) -> Path:
        """A profile without counters: what it is exported with tells which lines could be counted."""
        return self.work / "nothing.profdata"

    @property
    def _folders(self) -> list[Path]:
        return [self.sandbox.tree, self.sandbox.build_folder]

    def _objects(self) -> list[Path]:
        libraries = [sorted(self.sandbox.tree.glob(pattern)) for pattern in self.configuration.build.libraries]
        return [*chain.from_iterable(libraries), *(self.work / "objects").iterdir()]

    def _cxx_lines(self, folder: Path) -> Executed:
        """The lines that ran, by the raw profiles in a folder.

        The counters of each library apply to it alone: another may have a function of the same name.
        """
        executed: Executed = {}
        if self.tools is None:
            return executed
        of_library: dict[str, list[Path]] = {}
        for file in sorted(folder.glob("*.profraw")):
            signature = _SIGNATURE.match(file.name)
            if signature and file.stat().st_size:
                of_library.setdefault(signature["library"], []).append(file)
        for library, raw in of_library.items():
            merged = folder / f"{library}.profdata"
            clang.merge(self.tools, raw, merged)
            linked = [found for one in clang.counting(self.tools, merged) if (found := self._object(one))]
            for path, counts in clang.line_counts(self.tools, merged, linked, self._folders).items():
                if ran := {line for line, count in counts.items() if count}:
                    executed.setdefault(path, set()).update(ran)
        return executed

    def _object(self, build_id: str) -> Path | None:
        """The linked file with a build ID; None when it is gone."""
        if build_id not in self._object_of:
            found = next((file for file in self._objects() if bytes.fromhex(build_id) in file.read_bytes()), None)
            if found is None:
                return None
            self._object_of[build_id] = found
        return self._object_of[build_id]

    def _python_lines(self, file: Path) -> Iterator[tuple[int, str, int]]:
        for record in _read_lines(file):
            example, path, number = record.split("\t")
            yield int(example), path, int(number)


def _read_lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
