"""Creates a git repository whose first commit is the copy, so that the vendor's work can be told from it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

AUTO, YES, NO = "auto", "yes", "no"
# Set if git runs the caller, for example as a hook: they name another repository.
_NAMES_ANOTHER = ("GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_WORK_TREE")
# The first commit is the copy, byte for byte: no hook or attribute of the machine changes it, and no key is needed.
_PLAIN = ("-c", "commit.gpgSign=false", "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false")


def begin(folder: Path, message: str, wish: str = AUTO) -> str:
    """Makes the folder a repository and commits all of it. Returns one line that says what was done.

    An error of git is reported in that line and is not fatal: the files are written, and the vendor can commit them.
    ``wish`` is ``auto``, which makes no repository inside another one, ``yes`` or ``no``.
    """
    if wish == NO:
        return "no git repository, as asked"
    if shutil.which("git") is None:
        return "no git repository, because git is not installed; commit the files before you change any"
    if wish == AUTO and (around := git(folder, "rev-parse", "--show-toplevel")).returncode == 0:
        top = around.stdout.strip()
        return f"no git repository of its own, because the folder lies in that of {top}; GIT=yes makes one nevertheless"
    for command in (("init", "--quiet", "--initial-branch=main"), ("add", "--all", "--force")):
        ran = git(folder, *command)
        if ran.returncode != 0:
            return f"git {command[0]} failed: {_last_line(ran.stderr)}; commit the files before you change any"
    if git(folder, "-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT").returncode != 0:
        return (
            "a git repository with all files staged, but not committed, because git does not know you: "
            "git config --global user.name NAME, and user.email; then git commit"
        )
    ran = git(folder, "commit", "--quiet", "--no-verify", "--message", message)
    if ran.returncode != 0:
        return f"a git repository with all files staged; git commit failed: {_last_line(ran.stderr or ran.stdout)}"
    commit = git(folder, "rev-parse", "--short", "HEAD").stdout.strip()
    return f"a git repository, whose first commit {commit} is the copy"


def is_repository(folder: Path) -> bool:
    """Whether git can show what changed in the folder."""
    return shutil.which("git") is not None and git(folder, "rev-parse", "--is-inside-work-tree").returncode == 0


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs git in the folder, whichever repository the caller's environment names, and whatever its locale is."""
    environment = {key: value for key, value in os.environ.items() if key not in _NAMES_ANOTHER}
    return subprocess.run(
        ["git", *_PLAIN, *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        encoding="utf-8", errors="surrogateescape", check=False,
    )  # fmt: skip


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]
