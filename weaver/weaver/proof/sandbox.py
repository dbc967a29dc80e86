"""A copy of the working tree with its own environment and build, so that proofs do not disturb the working tree.

The environment is layered over the active one: its Python finds the packages of the active environment, except the
project's package, which comes from the copy.
"""

from __future__ import annotations

import fcntl
import filecmp
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from weaver.configuration import Configuration
from weaver.fault import Fault, say

BUILD_PROGRAMS = Path(sys.executable).parent
_WEAVER = Path(__file__).resolve().parents[2]


class Sandbox:
    """Contents of ``folder``: ``tree``, the copy; ``venv``, the environment; ``build``, the build output."""

    def __init__(self, configuration: Configuration, folder: Path) -> None:
        self.configuration = configuration
        self.folder = folder.resolve()
        self.tree = self.folder / "tree"
        self.environment = self.folder / "venv"
        self.build_folder = self.folder / "build"
        self.python = self.environment / "bin" / "python"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Blocks a second command while the first one uses the sandbox."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with self.folder.with_suffix(".lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"another command uses {self.folder.relative_to(self.configuration.root)}, waiting for it")
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    @property
    def site_packages(self) -> Path:
        """The folder of the environment's own packages."""
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.environment)}))

    def prepare(self) -> None:
        """Creates the environment if there is none, and updates the copy from the working tree."""
        if not (self.folder / "complete").exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            self._make_environment()
            (self.folder / "complete").touch()
        self._layer()
        self.synchronize()

    def _make_environment(self) -> None:
        venv.create(self.environment, with_pip=False, symlinks=True)
        project = tomllib.loads((self.configuration.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        info = self.site_packages / f"{project['name']}-{project['version']}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        )
        points = project.get("entry-points", {}).items()
        lines = [f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in of.items()) for group, of in points]
        (info / "entry_points.txt").write_text("\n".join(lines))

    def _layer(self) -> None:
        # A folder that a .pth file names is searched, but its own .pth files are not read: otherwise the development
        # install of the active environment would put its package in front of the one in the copy.
        parents = [entry for entry in sys.path if Path(entry).name in {"site-packages", "dist-packages"}]
        layers = dict.fromkeys([str(self.tree), *parents, str(_WEAVER)])
        (self.site_packages / "layers.pth").write_text("\n".join(layers) + "\n")

    def synchronize(self) -> None:
        """Copies files that git tracks or would add, where they differ; removes deleted ones."""
        listing = self.folder / "files"
        before = set(listing.read_text(encoding="utf-8").split("\0")) if listing.exists() else set()
        now = set(working_files(self.configuration.root))
        for name in sorted(before - now):
            (self.tree / name).unlink(missing_ok=True)
        for name in sorted(now):
            self.restore(name)
        listing.write_text("\0".join(sorted(now)), encoding="utf-8")

    def original(self, name: str) -> Path:
        """The file in the working tree."""
        return self.configuration.root / name

    def restore(self, name: str) -> None:
        """Makes one file the same as in the working tree."""
        source, target = self.original(name), self.tree / name
        if target.is_file() and filecmp.cmp(source, target, shallow=False):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        # Does not copy the time stamp: ninja must see that the copy has changed.
        shutil.copy(source, target)

    def placed(self, word: str, **others: str) -> str:
        """An argument of a configured command with the paths of this sandbox filled in."""
        return word.format(tree=self.tree, build=self.build_folder, python=self.python, **others)

    def build(self, *definitions: str, compiler: str | None = None, flags: Sequence[str] = ()) -> None:
        """Runs the commands of ``[build]`` with ``definitions`` and ``flags`` filled in. Throws: ``Fault``."""
        several = {"{definitions}": definitions, "{flags}": flags}
        environment = {**os.environ, "PATH": f"{BUILD_PROGRAMS}{os.pathsep}{os.environ.get('PATH', '')}"}
        if compiler:
            environment["CXX"] = compiler
        for words in self.configuration.build.commands:
            command = [one for word in words for one in (several[word] if word in several else [self.placed(word)])]
            ran = subprocess.run(
                command,
                cwd=self.tree,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if ran.returncode != 0:
                raise Fault(f"{' '.join(command[:3])} failed in {self.folder}:\n{ran.stdout}")


def working_files(root: Path) -> list[str]:
    """The files of the working tree that git tracks or would add, relative to its root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]
