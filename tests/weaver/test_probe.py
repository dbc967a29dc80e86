"""What a process of a measured page records about its Python and its C++ (where clang is installed)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from weaver.configuration import Configuration, load
from weaver.fault import Fault
from weaver.proof import clang, probe
from weaver.proof.measurement import Measurement

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, code: str, *, line: int | None = 7, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs code under the probe, as a process started by the example at ``line``."""
    environment = {**os.environ, probe.FOLDER: str(folder), probe.PROFILE: str(folder / "own" / probe.PATTERN)}
    if line is not None:
        environment[probe.EXAMPLE] = str(line)
    start = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'weaver')!r}]\n"
    start += f"from weaver.proof import probe; probe.start({str(ROOT)!r})\n"
    return subprocess.run(
        [sys.executable, "-c", start + code], env=environment | variables, capture_output=True, text=True, check=False
    )


def lines(folder: Path) -> list[str]:
    file = folder / probe.PYTHON
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


USE = f"import runpy; module = runpy.run_path({str(ROOT / 'cmake' / 'locate_torch.py')!r})\n"


def test_python_lines_are_told_with_their_example(tmp_path: Path) -> None:
    run(tmp_path, USE + "module['assignment']('a = None', 'b')")
    told = lines(tmp_path)
    assert told
    assert {line.split("\t")[0] for line in told} == {"7"}
    assert {line.split("\t")[1] for line in told} == {"cmake/locate_torch.py", "tools/prerequisites.py"}


def test_each_line_is_told_once(tmp_path: Path) -> None:
    run(tmp_path, USE + "for _ in range(3): module['assignment']('a = None', 'b')")
    assert len(lines(tmp_path)) == len(set(lines(tmp_path)))


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    unharmed = tmp_path / "unharmed"
    unharmed.mkdir()
    run(unharmed, USE)
    killed = run(tmp_path, USE + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert killed.returncode == -9
    assert lines(tmp_path) == lines(unharmed) != []


def test_code_of_other_folders_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("x = 1\n", encoding="utf-8")
    run(tmp_path, f"import runpy; runpy.run_path({str(tmp_path / 'other.py')!r})")
    assert lines(tmp_path) == []


@pytest.mark.long
def test_what_runs_while_the_package_is_imported_belongs_to_no_example(tmp_path: Path) -> None:
    run(tmp_path, "import torch")
    assert not [line for line in lines(tmp_path) if "torch_openreg/__init__" in line]
    run(tmp_path, "import torch; torch.openreg.fallback_stats()")
    assert [line for line in lines(tmp_path) if "torch_openreg/openreg/fallback.py" in line]


@pytest.mark.long
def test_a_library_that_nothing_has_loaded_is_not_loaded_to_be_asked(tmp_path: Path) -> None:
    code = """
import torch
from pathlib import Path
from weaver.proof.probe import libraries
names = lambda: sorted(Path(file).name.partition(".")[0] for file in libraries())
before = names()
import torch_openreg.stable
print(before, set(names()) - set(before))
"""
    # A build without counters has nothing to clear.
    without = "import ctypes; ctypes.CDLL.orCounters_mark = ctypes.CDLL.orCounters_drop = lambda library: None\n"
    done = run(tmp_path, without + code)
    assert done.stdout.strip() == "['_C', 'libopenreg', 'libtorch_openreg'] {'libopenreg_stable'}", done.stderr
    assert not [line for line in lines(tmp_path) if "torch_openreg/stable.py" in line]


@pytest.mark.long
def test_an_import_that_fails_is_what_the_example_shows(tmp_path: Path) -> None:
    run(tmp_path, "sys.modules['torch_openreg._C'] = None; import torch_openreg", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert [line for line in lines(tmp_path) if "torch_openreg/_version_check.py" in line]


@pytest.mark.long
def test_python_that_autograd_calls_on_its_own_threads_is_told(tmp_path: Path) -> None:
    code = f"""
import runpy, torch
swiglu = runpy.run_path({str(ROOT / "examples" / "custom_operators_in_python.py")!r})["Swiglu"]
gate = torch.ones(2, device="openreg", requires_grad=True)
swiglu.apply(gate, gate).sum().backward()
"""
    done = run(tmp_path, code)
    assert done.returncode == 0, done.stderr
    text = (ROOT / "examples" / "custom_operators_in_python.py").read_text(encoding="utf-8").splitlines()
    backward = next(number for number, line in enumerate(text, 1) if "sigmoid = torch.sigmoid(gate)" in line)
    assert f"7\texamples/custom_operators_in_python.py\t{backward}" in lines(tmp_path)


SOURCE = """\
#define OPERATOR(name) static void TORCH_LIBRARY_##name##_init_0()
extern "C" __attribute__((visibility("default"))) int sign(int value) {
  if (value < 0) {
    return -1;
  }
  return value > 0;
}
template <typename T>
T twice(T value) {
  return value + value;
}
int g_registered = 0;
OPERATOR(abs) {
  g_registered = 1;
}
static const bool g_loaded = (TORCH_LIBRARY_abs_init_0(), true);
"""


@pytest.fixture(scope="module")
def tools() -> clang.Clang:
    try:
        return clang.find_clang()
    except Fault as fault:
        pytest.skip(str(fault))


@pytest.fixture(scope="module")
def library(tools: clang.Clang, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small library with counters, built as by cmake/Coverage.cmake."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "sign.cpp").write_text(SOURCE, encoding="utf-8")
    common = [tools.compiler, "-std=c++20", "-O0", "-fPIC", "-fvisibility=hidden"]
    counters = folder / "counters.o"
    subprocess.run([*common, "-c", ROOT / "weaver/weaver/proof/counters.cpp", "-o", counters], check=True)
    options = ["-fprofile-instr-generate", "-fcoverage-mapping", "-mllvm", "-runtime-counter-relocation"]
    target = folder / "libsign.so"
    subprocess.run([*common, *options, "-shared", folder / "sign.cpp", counters, "-o", target], check=True)
    return target


def counts(tools: clang.Clang, library: Path, folder: Path, code: str) -> dict[int, int]:
    """Runs code that finds the library as ``lib``, and returns how often each line of its source ran."""
    start = f"import ctypes, os; lib = ctypes.CDLL({str(library)!r})\n"
    run(folder, start + code)
    merged = folder / "merged.profdata"
    clang.merge(tools, sorted((folder / "own").glob("*.profraw")), merged)
    return clang.line_counts(tools, merged, [library], [library.parent])["sign.cpp"]


def test_counters_tell_which_branch_ran(tools: clang.Clang, library: Path, tmp_path: Path) -> None:
    found = counts(tools, library, tmp_path, "lib.sign(5)")
    assert (found[3], found[4], found[6]) == (1, 0, 1)


def test_a_template_that_nothing_instantiates_has_no_counters(
    tools: clang.Clang, library: Path, tmp_path: Path
) -> None:
    assert 10 not in counts(tools, library, tmp_path, "lib.sign(5)")


def test_the_counters_of_a_library_are_not_credited_to_another_with_a_function_of_the_same_name(
    tools: clang.Clang, tmp_path: Path
) -> None:
    measurement = Measurement(Configuration(ROOT))
    measurement.tools, measurement.work = tools, tmp_path / "work"
    measurement.sandbox = SimpleNamespace(tree=tmp_path, build_folder=tmp_path)  # type: ignore[assignment]
    objects = measurement.work / "objects"
    objects.mkdir(parents=True)
    options = ["-fprofile-instr-generate", "-fcoverage-mapping", "-mllvm", "-runtime-counter-relocation"]
    for name, value in (("ran", 1), ("other", 2)):
        source, target = tmp_path / f"{name}.cpp", objects / name
        source.write_text(f'extern "C" int answer() {{ return {value}; }}\nint {name}() {{ return 0; }}\n')
        linked = ["-fPIC", "-shared", "-Wl,--build-id", str(source), "-o", str(target)]
        subprocess.run([tools.compiler, *options, *linked], check=True)
    run(tmp_path, f"import ctypes; ctypes.CDLL({str(objects / 'ran')!r}).answer()")
    assert measurement._cxx_lines(tmp_path / "own") == {"ran.cpp": {1}}


def test_counters_of_a_killed_process_are_not_lost(tools: clang.Clang, library: Path, tmp_path: Path) -> None:
    found = counts(tools, library, tmp_path, "lib.sign(-5); os.kill(os.getpid(), 9)")
    assert (found[4], found[6]) == (1, 0)


def test_counters_can_be_cleared_and_asked_for(tools: clang.Clang, library: Path, tmp_path: Path) -> None:
    clear = "assert any(); lib.weaver_counters_mark(); lib.weaver_counters_drop(); assert not any()"
    code = f"any = lib.weaver_counters_any; lib.sign(-5); {clear}; lib.sign(0)"
    found = counts(tools, library, tmp_path, code)
    assert (found[4], found[6]) == (0, 1)


def test_what_another_thread_counts_while_the_counters_are_read_is_not_lost(
    tools: clang.Clang, library: Path, tmp_path: Path
) -> None:
    between = "lib.weaver_counters_mark(); lib.sign(-5); lib.weaver_counters_drop()"
    found = counts(tools, library, tmp_path, f"lib.sign(5); {between}")
    assert (found[3], found[4], found[6]) == (1, 1, 0)


def test_what_the_probe_itself_runs_is_not_counted(tools: clang.Clang, library: Path, tmp_path: Path) -> None:
    itself = "lib.weaver_counters_mark(); lib.sign(-5); lib.weaver_counters_restore()"
    found = counts(tools, library, tmp_path, f"lib.sign(5); {itself}")
    assert (found[3], found[4], found[6]) == (1, 0, 1)


def test_what_another_thread_counts_while_the_probe_runs_is_not_lost(
    tools: clang.Clang, library: Path, tmp_path: Path
) -> None:
    alone = "lib.weaver_counters_mark(); lib.sign(5); lib.weaver_counters_restore()"
    found = counts(tools, library, tmp_path, f"{alone}; {alone.replace('sign(5);', 'sign(5); lib.sign(-5);')}")
    assert found[4] == 1


def test_registrations_are_known_by_their_function(tools: clang.Clang, library: Path, tmp_path: Path) -> None:
    counts(tools, library, tmp_path, "lib.sign(5)")
    merged = tmp_path / "merged.profdata"
    assert clang.registration_lines(tools, merged, [library], [library.parent], load(ROOT).measure.loaded) == {
        "sign.cpp": {13, 14, 15}
    }


def test_a_missing_clang_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        Fault, match=r"coverage needs clang 16 or newer .* found none; Debian: apt-get install clang-19"
    ):
        clang.find_clang()
