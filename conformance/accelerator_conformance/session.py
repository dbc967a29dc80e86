"""The kit's pytest plugin: its options, the loop that hands checks to workers, and the report at the end.

The pytest process imports torch without any backend, to collect; only workers load the backend.
"""

from __future__ import annotations

import inspect
import os
import platform
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from accelerator_conformance import __version__, page
from accelerator_conformance.checks import LEVELS, not_offered
from accelerator_conformance.isolation import DoesNotStart, Outcome, Workers
from accelerator_conformance.poster import Poster
from accelerator_conformance.report import Check, Report, area_of, identity, read, terminal
from accelerator_conformance.worker import PR_SET_PDEATHSIG, Loop

if TYPE_CHECKING:
    import torch

RunProcess = Callable[[str], subprocess.CompletedProcess[str]]

# The order in which a device is brought up, and in which faults are best fixed; what takes minutes comes last.
AREAS = (
    "device",
    "module",
    "hooks",
    "guard",
    "memory",
    "tensors",
    "streams",
    "events",
    "random",
    "serialization",
    "autograd",
    "amp",
    "models",
    "operators",
)
SHOWN = 3  # names in a message, of many
LONGEST_TIMEOUT = 1e6  # seconds, which poll(2) can still wait
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_environment = pytest.StashKey[Mapping[str, str]]()
_report = pytest.StashKey[Report]()
_not_written = pytest.StashKey[str]()  # why there is no report at the end
_earlier = pytest.StashKey[dict[str, tuple[Check, Outcome]]]()
_filled = pytest.StashKey[tuple[dict[str, Any], dict[str, Outcome]]]()  # what fills in the poster


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a run."""
    group = parser.getgroup("accelerator conformance")
    group.addoption("--device", help="the device type of the backend, as in torch.device('acme')")
    group.addoption("--level", choices=LEVELS, help="how much is asked (default: usable; of a poster, all)")
    group.addoption("--area", default="", help=f"these areas alone, separated by commas: {', '.join(AREAS)}")
    group.addoption("--setup", action="append", default=[], help="a module that each worker imports after torch")
    group.addoption("--about", default="", help="what the report is to say of device and driver, in its first line")
    group.addoption("--timeout", type=float, default=120.0, help="seconds for a check (default: %(default)g)")
    group.addoption(
        "--report", type=Path, help="the folder for report.json and report.html (default: conformance-DEVICE)"
    )
    group.addoption(
        "--resume", action="store_true", help="go on with the run of which report.json has the outcomes so far"
    )
    group.addoption("--guide", default="", help="where the chapters of the guide are, for the links in what is written")
    group.addoption("--poster", type=Path, metavar="FILE", help="run nothing, and write all checks on one sheet")
    group.addoption("--from", dest="filled_from", type=Path, metavar="REPORT", help="the report.json for the poster")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marks, and keeps backends out of the process that collects."""
    config.addinivalue_line("markers", "chapter(name): the chapter of the guide that has the cure")
    config.addinivalue_line("markers", "level(name): the level that asks it: minimal, usable or complete")
    if config.option.help:
        return  # there may be no device yet
    for_poster = config.getoption("poster") is not None
    config.option.level = config.option.level or (LEVELS[-1] if for_poster else "usable")
    _refuse_impossible(config, for_poster)
    if _is_worker(config):
        return
    if config.getoption("numprocesses", None) or config.getoption("dist", "no") != "no":
        raise pytest.UsageError("the kit has workers of its own: run it without xdist's, with -n0")
    config.stash[_environment] = dict(os.environ)
    os.environ[AUTOLOAD] = "0"
    if for_poster:
        config.stash[_filled] = _read(config)
        _refuse_unwritable(config, "--poster", config.getoption("poster"), config.getoption("poster").parent)
        return
    if config.getoption("filled_from"):
        raise pytest.UsageError("--from fills in a poster: name the file for it, --poster poster.html")
    config.stash[_report] = report = Report(_folder(config), _run(config))
    config.stash[_earlier] = {}
    if config.getoption("resume"):
        try:
            config.stash[_earlier] = report.earlier()
        except ValueError as error:
            raise pytest.UsageError(f"--resume: {error}; run without --resume") from None
    _refuse_unwritable(config, "--report", report.folder, report.folder)


def _refuse_impossible(config: pytest.Config, for_poster: bool) -> None:
    """Rejects values of options with which no check could run."""
    if sys.flags.optimize:
        raise pytest.UsageError("the checks are assert statements, which -O and PYTHONOPTIMIZE leave out: run without")
    if not config.getoption("device") and not for_poster:
        raise pytest.UsageError("name the device under test: --device acme")
    if ":" in (config.getoption("device") or ""):
        raise pytest.UsageError("--device: name the type alone, without an index; the kit tests all devices of it")
    if unknown := set(_areas(config)) - set(AREAS):
        raise pytest.UsageError(f"--area: there is no {', '.join(sorted(unknown))}; areas are {', '.join(AREAS)}")
    if not 0 < (timeout := config.getoption("timeout")) <= LONGEST_TIMEOUT:
        raise pytest.UsageError(
            f"--timeout: give the seconds for a check, above 0 and at most {LONGEST_TIMEOUT:.0f}, got {timeout:g}"
        )


def _refuse_unwritable(config: pytest.Config, option: str, named: Path, folder: Path) -> None:
    """Makes the folder and tries to write to it before anything runs, as a run without a report is lost."""
    if config.option.collectonly or config.option.help:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise pytest.UsageError(_unwritable(option, named, error)) from None


def _unwritable(option: str, named: Path, error: OSError) -> str:
    return f"{option}: {named} cannot be written: {error.strerror}; name another with {option}"


def _read(config: pytest.Config) -> tuple[dict[str, Any], dict[str, Outcome]]:
    """The report that fills in the poster; empty if none is named."""
    if not (file := config.getoption("filled_from")):
        return {}, {}
    try:
        content, outcomes = read(file)
    except ValueError as error:
        raise pytest.UsageError(f"--from: {error}") from None
    if (kit := content["run"].get("kit")) != __version__:
        raise pytest.UsageError(
            f"--from: {file} is of version {kit} of the kit, and this is {__version__}: run it anew"
        )
    return content, outcomes


def _areas(config: pytest.Config) -> list[str]:
    return [area for area in config.getoption("area").split(",") if area] or list(AREAS)


def _is_worker(config: pytest.Config) -> bool:
    return any(isinstance(plugin, Loop) for plugin in config.pluginmanager.get_plugins())


def _folder(config: pytest.Config) -> Path:
    return config.getoption("report") or Path(f"conformance-{config.getoption('device')}")


def _run(config: pytest.Config) -> dict[str, str]:
    """The options and versions that decide which checks run, and with what outcome."""
    names = ("device", "level")
    return {
        **{name: config.getoption(name) for name in names},
        "setup": ", ".join(config.getoption("setup")),
        "about": config.getoption("about"),
        "kit": __version__,
        "torch": version("torch"),
        "python": platform.python_version(),
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skips the files of areas that are not selected, some of which take seconds to import."""
    name = collection_path.stem
    return True if name.startswith("test_") and name.removeprefix("test_") not in _areas(config) else None


@pytest.hookimpl(tryfirst=True)  # before -k removes checks that a report may name
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the checks of the level and those below, in the order of the areas."""
    if foreign := [item for item in items if item.path.parent != Path(__file__).parent]:
        raise pytest.UsageError(f"run the kit by itself, without {foreign[0].path}")
    if _filled in config.stash:
        _refuse_unknown(config, items)
    asked = LEVELS[: LEVELS.index(config.getoption("level")) + 1]
    above = [item for item in items if _mark(item, "level", "minimal") not in asked]
    config.hook.pytest_deselected(items=above)
    items[:] = sorted((item for item in items if item not in set(above)), key=lambda item: AREAS.index(area_of(item)))


def _refuse_unknown(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Rejects a report with unknown checks: it is of another kit, whatever its version says."""
    known = {identity(item) for item in items}
    left_out = {area for area in AREAS if area not in _areas(config)}
    reported = (name for name in config.stash[_filled][1] if name.partition("/")[0] not in left_out)
    if unknown := [name for name in reported if name not in known]:
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        raise pytest.UsageError(
            f"--from: {config.getoption('filled_from')} names checks that this kit has not: "
            f"{', '.join(unknown[:SHOWN])}{more}; run it anew"
        )


def _mark(item: pytest.Item, name: str, default: str = "") -> str:
    mark = item.get_closest_marker(name)
    return str(mark.args[0]) if mark else default


def _check(item: pytest.Item) -> Check:
    """How a check describes itself: by its docstring and its marks."""
    asks = inspect.getdoc(getattr(item, "function", None)) or ""
    return Check(identity(item), " ".join(asks.split()), _mark(item, "level", "minimal"), _mark(item, "chapter"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Hands the checks to workers."""
    config = session.config
    if config.option.collectonly or session.testsfailed or _is_worker(config):
        return None
    if _filled in config.stash:
        _write_poster(session)
        return True
    # The report has what pytest would print about failures, so that would appear twice. It does not have collection
    # errors: pytest has printed those, and ended, before this.
    if config.option.tbstyle == "auto":
        config.option.tbstyle = "no"
    if reporter := config.pluginmanager.get_plugin("terminalreporter"):
        reporter.reportchars = ""
    options = [f"--device={config.getoption('device')}", f"--level={config.getoption('level')}"]
    options += [f"--setup={module}" for module in config.getoption("setup")]
    # As after Ctrl-C: the workers end too, and the report is written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    workers = Workers(options, config.getoption("timeout"), config.stash[_environment])
    report = config.stash[_report]
    known = config.stash[_earlier]
    report.results = dict(known)  # also those of checks that are not selected now
    # A restarted worker imports its files again, and the operator database takes seconds, so it has workers of its own.
    for _, items in groupby(session.items, lambda item: area_of(item) == "operators"):
        named = {identity(item): item for item in items}
        earlier = [known[name][1] for name in named if name in known]
        rest = [name for name in named if name not in known]
        files = list(dict.fromkeys(item.path for item in named.values()))
        try:
            with closing(workers.run(files, rest)) as outcomes:
                for outcome in chain(earlier, outcomes):
                    report.add(_check(named[outcome.name]), outcome)
                    _log(named[outcome.name], outcome)
                    if session.shouldfail or session.shouldstop:
                        raise session.Failed(session.shouldfail or session.shouldstop)
        except DoesNotStart as error:
            report.fault = str(error)
            session.shouldfail = "the backend cannot be asked anything"
            raise session.Failed(session.shouldfail) from None
    return True


def _write_poster(session: pytest.Session) -> None:
    content, outcomes = session.config.stash[_filled]
    results = [(_check(item), outcomes.get(identity(item))) for item in session.items]
    file = session.config.getoption("poster")
    poster = Poster(results, content.get("run", {}), content.get("fault", ""), session.config.getoption("guide"))
    try:
        poster.write(file)
    except OSError as error:
        raise pytest.UsageError(_unwritable("--poster", file, error)) from None


def _log(item: pytest.Item, outcome: Outcome) -> None:
    """Reports an outcome to pytest, as if the check had run here."""
    state: Any = {"passed": "passed", "not offered": "skipped"}.get(outcome.outcome, "failed")
    told: Any = None
    if state == "skipped":
        told = (str(item.path), item.location[1], f"not offered: {outcome.reason}")
    elif state == "failed":
        told = f"{outcome.outcome}: {outcome.reason}\n{outcome.detail}"
    result = pytest.TestReport(item.nodeid, item.location, {}, state, told, "call", duration=outcome.seconds)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    item.ihook.pytest_runtest_logreport(report=result)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the report, even if the run was interrupted. If that fails, the terminal still has the scores."""
    if (report := session.config.stash.get(_report, None)) and (report.results or report.fault):
        try:
            report.write()
            page.write(report, session.config.getoption("guide"))
        except OSError as error:
            session.config.stash[_not_written] = _unwritable("--report", report.folder, error)
            session.exitstatus = pytest.ExitCode.USAGE_ERROR


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode, config: pytest.Config
) -> None:
    """Shows the scores and the failures, or where the poster is."""
    if _filled in config.stash and exitstatus == 0 and not config.option.collectonly:
        terminalreporter.line(f"poster: {config.getoption('poster')}")
    report = config.stash.get(_report, None)
    if report is None or not (report.results or report.fault):
        return
    terminalreporter.section(f"{report.run['device']}: accelerator conformance, level {report.run['level']}")
    if about := report.run.get("about"):
        terminalreporter.line(about)
    for line in terminal(report, config.getoption("guide")):
        terminalreporter.line(line)
    terminalreporter.line("")
    terminalreporter.line(config.stash.get(_not_written, f"report: {report.file} and {page.file(report)}"))


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    """The type of the device under test."""
    return str(request.config.getoption("device"))


@pytest.fixture
def module(device: str) -> Any:
    """The device module, `torch.acme`."""
    import torch

    return torch.get_device_module(device)


@pytest.fixture
def other(device: str) -> Iterator[torch.device]:
    """A second device, while the first is the current one."""
    import torch

    if torch.accelerator.device_count() < 2:
        not_offered("the machine has one device alone; with two, the kit sees whether indices are obeyed")
    torch.accelerator.set_device_index(0)
    yield torch.device(device, 1)
    torch.accelerator.set_device_index(0)


@pytest.fixture
def run_process(request: pytest.FixtureRequest) -> RunProcess:
    """Runs Python code in a separate process, with the modules of --setup, for states that cannot be undone."""
    modules = ["torch", *request.config.getoption("setup")]
    # Otherwise a process that hangs after its parent has died would hold the device forever.
    tied = f"import ctypes\nctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, {signal.SIGKILL:d})"

    def run(code: str) -> subprocess.CompletedProcess[str]:
        lines = [tied, *(f"import {module}" for module in modules), textwrap.dedent(code)]
        command = [sys.executable, "-X", "faulthandler", "-c", "\n".join(lines)]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def cycles_per_second(pytestconfig: pytest.Config) -> float:
    """The speed of the device module's `_sleep`. Its first call may start the device, and does not count."""
    import torch

    module = torch.get_device_module(pytestconfig.getoption("device"))
    if not hasattr(module, "_sleep"):
        not_offered(f"{module.__name__} has no _sleep(cycles), with which PyTorch's tests keep a stream busy")
    for cycles in (1, 50_000_000):
        began = time.monotonic()
        module._sleep(cycles)
        module.synchronize()
    return cycles / (time.monotonic() - began)


@pytest.fixture
def busy(module: Any, cycles_per_second: float) -> Callable[[float], None]:
    """Keeps the current stream busy for about the given number of seconds."""
    return lambda seconds: module._sleep(int(seconds * cycles_per_second))
