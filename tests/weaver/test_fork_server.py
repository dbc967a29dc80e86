"""A process from the fork server behaves like a new one; otherwise the script gets a new one."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from weaver.configuration import Run, load
from weaver.run import isolation

ROOT = Path(__file__).resolve().parents[2]
WEAVER = str(ROOT / "weaver")
SECONDS = 60.0
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
# The objects of a script are destroyed while Python and PyTorch still work, after its registered finalizers.
AT_THE_END_OF_PYTHON = """
import torch, weakref
class Held:
    def __init__(self):
        self.tensor = torch.ones(1, device="openreg")
    def __del__(self):
        print("gone", (self.tensor + 1).item())
held = Held()
weakref.finalize(torch, print, "finalized")
"""
# A library that is loaded after torch may do this, after Python has been finalized.
AT_THE_END_OF_C = """
import torch, ctypes
libc = ctypes.CDLL(None)
libc.__cxa_atexit(ctypes.cast(libc.putchar, ctypes.c_void_p), ord("C"), None)
"""

# A static object is destroyed after Python is finalized; the unload functions of a library run after PyTorch's, too.
ENDS = {
    "static object": "#include <cstdlib>\nstruct Last { ~Last() { std::abort(); } } last;",
    "unloaded library": "#include <cstdlib>\n__attribute__((destructor)) static void last() { std::abort(); }",
}


def settings() -> Run:
    """The settings of the guide, with one more preloaded module."""
    run = load(ROOT).run
    return replace(run, preload=("torch", "fractions"))


@pytest.fixture(scope="module")
def pages() -> Iterator[isolation.Pages]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONUNBUFFERED", raising=False)  # output that C has buffered is written at exit
        pages = isolation.Pages(settings(), ROOT)
    with pages:
        yield pages


def run(pages: isolation.Pages, *sources: str, seconds: float = SECONDS) -> isolation.Outcome:
    """Runs a page with these examples; each must print nothing."""
    steps: list[dict[str, object]] = [
        {"line": line, "source": source + "\n", "want": "", "flags": {}, "exact_message": None}
        for line, source in enumerate(sources, 1)
    ]
    blocks = [{"kind": "doctest", "group": "default", "steps": steps}]
    return pages.run("page.md", blocks, seconds)


def printed_by(pages: isolation.Pages, script: Path, code: str, call: str = "run_example(SCRIPT)") -> str:
    """The output of a script that a page runs."""
    script.write_text(code, encoding="utf-8")
    outcome = run(pages, call.replace("SCRIPT", repr(str(script))))
    assert len(outcome.failures) == 1, outcome
    return outcome.failures[0].text.partition("\nGot:\n")[2].replace("    ", "", 1).replace("\n    ", "\n")


def is_running(process: int) -> bool:
    """Whether a process exists and has not ended; a zombie has an empty command line."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes() != b""
    except FileNotFoundError:
        return False


@pytest.mark.long
def test_a_script_finds_what_python_would_give_it(pages: isolation.Pages, tmp_path: Path) -> None:
    code = f"""import torch
import os, sys, threading
print(__name__, sys.argv, sys.path[0], __file__, {WEAVER!r} in sys.path, os.read(0, 1), threading.active_count())
print(sys.modules["__main__"].__dict__ is globals(), len(os.listdir("/proc/self/task")), os.getcwd())
"""
    script = tmp_path / "script.py"
    printed = printed_by(pages, script, code, 'run_example(SCRIPT, "an argument")')
    assert printed.splitlines() == [
        f"__main__ {[str(script), 'an argument']} {tmp_path} {script} False b'' 1",
        f"True 1 {ROOT}",
    ]


@pytest.mark.parametrize(
    ("code", "call", "printed"),
    [
        ("import torch; print(torch.ones(1, device='openreg'))", "", "tensor([1.], device='openreg:0')"),
        ("import torch_openreg, torch; print(torch.openreg.device_count())", "", "2"),
        ("import torch.nn; print(torch.openreg.device_count())", ", env={'OPENREG_DEVICE_COUNT': '3'}", "3"),
        ("import torch; print(hasattr(torch, 'openreg'))", f", env={{'{AUTOLOAD}': '0'}}", "False"),
        (f"import os; os.environ['{AUTOLOAD}'] = '0'; import torch; print(hasattr(torch, 'openreg'))", "", "False"),
        ("import torch, sys; print(sys.flags.hash_randomization)", ", env={'PYTHONHASHSEED': '0'}", "0"),
        ("import torch, atexit; atexit.register(print, 'the end')", "", "the end"),
        ("import torch; raise KeyError('x')", ", status=1", "KeyError: 'x'"),
        (AT_THE_END_OF_C, "", "C"),
        (AT_THE_END_OF_PYTHON, "", "finalized\ngone 2.0"),
    ],
)
@pytest.mark.long
def test_a_script_begins_before_import_torch_has_ended(
    pages: isolation.Pages, tmp_path: Path, code: str, call: str, printed: str
) -> None:
    assert printed_by(pages, tmp_path / "script.py", code, f"run_example(SCRIPT{call})") == printed


def test_what_is_needed_late_has_been_imported(pages: isolation.Pages, tmp_path: Path) -> None:
    code = "import sys; print('fractions' in sys.modules); import torch"
    assert printed_by(pages, tmp_path / "script.py", code) == "True"


def test_a_script_that_a_signal_kills_is_told_of(pages: isolation.Pages, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch, os, signal; os.kill(os.getpid(), signal.SIGKILL)", encoding="utf-8")
    outcome = run(pages, f"run_example({str(script)!r})", "1 if 0 else None")
    assert outcome.ran == 2
    assert f"RuntimeError: {script} was killed by SIGKILL" in outcome.failures[0].text


def test_a_page_that_crashes_is_named_and_the_next_one_runs(pages: isolation.Pages) -> None:
    outcome = run(pages, "import os", "os.kill(os.getpid(), 11)")
    assert "killed by SIGSEGV in this example" in outcome.failures[0].text
    assert run(pages, "import torch", "assert torch.ones(1, device='openreg').item() == 1").failures == []


@pytest.mark.long
def test_a_script_that_hangs_ends_with_its_page(pages: isolation.Pages, tmp_path: Path) -> None:
    script, note = tmp_path / "script.py", tmp_path / "note"
    code = f"import torch, os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    script.write_text(code, encoding="utf-8")
    outcome = run(pages, f"run_example({str(script)!r})", seconds=5.0)
    assert "still running after 5 seconds" in outcome.failures[0].text
    deadline = time.monotonic() + SECONDS
    while is_running(int(note.read_text(encoding="utf-8"))):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert run(pages, "import sys").failures == []


def test_what_a_page_leaves_running_does_not_hold_it(pages: isolation.Pages) -> None:
    outcome = run(pages, "import os, time", "if os.fork() == 0: time.sleep(3600)")
    assert outcome.failures == []
    assert outcome.ran == 2


def test_two_threads_run_pages_at_once(pages: isolation.Pages, tmp_path: Path) -> None:
    def wait_for(other: str, own: str) -> isolation.Outcome:
        wait = f"while not Path({str(tmp_path / other)!r}).exists(): time.sleep(0.01)"
        return run(pages, "import time; from pathlib import Path", f"Path({str(tmp_path / own)!r}).touch()", wait)

    with ThreadPoolExecutor() as pool:
        assert [outcome.failures for outcome in pool.map(wait_for, ("a", "b"), ("b", "a"))] == [[], []]


def test_a_server_that_has_ended_is_an_error(tmp_path: Path) -> None:
    with (
        isolation.Pages(settings(), tmp_path, environment={"PYTHONHOME": "/nowhere"}) as pages,
        pytest.raises(RuntimeError, match="the fork server has ended"),
    ):
        run(pages, "import sys")


@pytest.mark.parametrize("end", ENDS)
def test_a_script_that_crashes_after_python_fails(pages: isolation.Pages, tmp_path: Path, end: str) -> None:
    library, script = tmp_path / "library.so", tmp_path / "script.py"
    compiler = shlex.split(os.environ.get("CXX") or "c++")
    compile_it = [*compiler, "-shared", "-fPIC", "-xc++", "-", "-o", str(library)]
    subprocess.run(compile_it, input=ENDS[end], text=True, check=True)
    script.write_text(f"import torch, ctypes; ctypes.CDLL({str(library)!r})", encoding="utf-8")
    outcome = run(pages, f"run_example({str(script)!r})", "import ctypes", f"_ = ctypes.CDLL({str(library)!r})")
    assert outcome.ran == 3
    assert [failure.line for failure in outcome.failures] == [1, 3]
    assert f"RuntimeError: {script} was killed by SIGABRT" in outcome.failures[0].text
    # The page itself has loaded it, too, in its last example.
    assert "killed by SIGABRT while it ended, after its last example" in outcome.failures[1].text


def test_a_script_that_crashes_in_a_handler_fails(pages: isolation.Pages, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    code = "import torch, atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGSEGV)"
    script.write_text(code, encoding="utf-8")
    outcome = run(pages, f"run_example({str(script)!r})")
    assert [failure.line for failure in outcome.failures] == [1]
    assert f"RuntimeError: {script} was killed by SIGSEGV" in outcome.failures[0].text


@pytest.mark.long
def test_the_processor_seconds_are_those_of_a_page_and_its_scripts(pages: isolation.Pages, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch, time\nwhile time.process_time() < 1: pass", encoding="utf-8")
    used = run(pages, f"run_example({str(script)!r})").processor_seconds
    assert used is not None
    assert used >= 1
