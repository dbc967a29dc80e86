"""``python -m weaver proof``: runs the pages on a build with counters, and writes ``lines.json``.

The examples of a page that shows a line must execute every line of its listings that can be executed.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from weaver.configuration import Configuration
from weaver.fault import Fault, say
from weaver.options import check_names, parse
from weaver.proof import figures, floor, lines, proof_files
from weaver.proof.measured import Measured
from weaver.proof.measurement import Measurement, Ran
from weaver.proof.observer import observer
from weaver.proof.planned import Page, read_pages
from weaver.proof.proof_files import LINES
from weaver.sources import binding
from weaver.sources.installed import bound_to
from weaver.sources.listing import Listing


def report(pages: list[Page], measured: dict[str, Ran], run: Measurement) -> dict[str, Any]:
    """The entry of each page in lines.json."""
    configuration = run.configuration

    def entry(page: Page, listing: Listing) -> dict[str, Any]:
        text = (run.sandbox.tree / listing.path).read_text(encoding="utf-8").splitlines()
        here = measured[page.name].executed(listing.path)
        shown = range(listing.first, listing.last + 1)
        known = run.counted.get(listing.path, set()), run.registrations.get(listing.path, set())
        found = lines.classify(
            listing.path,
            text,
            shown,
            *known,
            here,
            script=configuration.covers(configuration.executed, listing.path),
            unmeasured=bool(configuration.why_unmeasured(listing.path)),
            absent=configuration.mutants.absent,
        )
        return {
            "path": listing.path,
            "first": listing.first,
            "last": listing.last,
            "region": listing.region,
            "text": binding.text_digest(listing, run.sandbox.tree),
            "executed": found.executed,
            "missed": found.missed,
            "excused": {str(number): reason for number, reason in found.excused.items()},
            "silent": found.silent,
            "example": _best_example(page, measured[page.name], listing.path, set(found.executed)),
        }

    today, present = datetime.date.today().isoformat(), observer(configuration).present(run.sandbox.tree)
    return {
        page.name: {
            "digest": page.digest,
            "date": today,
            "examples": len(page.examples),
            "seconds": measured[page.name].seconds,
            # From the copy: the working tree may have changed meanwhile.
            "sources": measured[page.name].sources(configuration, run.sandbox.tree),
            # A page that falls back although the project has the name does so deliberately.
            "fell_back": [name for name in measured[page.name].fell_back if name not in present],
            "listings": [entry(page, listing) for listing in page.listings],
        }
        for page in pages
    }


def _best_example(page: Page, ran: Ran, path: str, wanted: set[int]) -> int | None:
    """The first block that executes the most of the lines ``wanted``; None when no block executes any."""
    best, most = None, 0
    for index, block in enumerate(page.blocks):
        of_block = (ran.examples[step["line"]].get(path, set()) for step in block["steps"])
        count = len(set().union(*of_block) & wanted)
        if count > most:
            best, most = index, count
    return best


def read_earlier(configuration: Configuration) -> dict[str, Any]:
    """The entries of lines.json, current or not; empty when another release made them, or other classes of lines."""
    file = configuration.root / configuration.result(LINES)
    said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return said["pages"] if said.items() >= _head(configuration).items() else {}


def _head(configuration: Configuration) -> dict[str, Any]:
    """What all entries of lines.json are bound to."""
    return dict([bound_to(configuration)]) | {"classes": lines.CLASSES}


def write(configuration: Configuration, pages: dict[str, Any]) -> None:
    """Writes the result, one listing per line, so that its diffs are readable."""
    out = [json.dumps(_head(configuration))[:-1] + ', "pages": {']
    for name, page in pages.items():
        out.append(json.dumps({name: {**page, "listings": None}})[1:-1].removesuffix("null}") + "[")
        out += [json.dumps(listing) + "," for listing in page["listings"]]
        out[-1] = out[-1].removesuffix(",")
        out.append("]},")
    out[-1] = out[-1].removesuffix(",") + "}}"
    file = configuration.root / configuration.result(LINES)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(out) + "\n", encoding="utf-8")


def missed(state: floor.State, names: Iterable[str]) -> list[str]:
    """One message for each displayed line of the named pages that no example of a page that shows it executes."""
    found: dict[tuple[str, int], list[str]] = {}
    for name in names:
        of_page = figures.chapter_lines(state.measured, name)
        for line in of_page.missed if of_page else ():
            found.setdefault(line, []).append(name)
    return [
        f"{path}:{number}: shown by {', '.join(showing)}, executed by no example there: "
        f"{(state.configuration.root / path).read_text(encoding='utf-8').splitlines()[number - 1].strip()}"
        for (path, number), showing in sorted(found.items())
    ]


def main(configuration: Configuration, arguments: list[str]) -> None:
    """Measures the pages whose result is not current, or the named ones. Throws: ``Fault``."""
    options = parse(configuration, "proof", arguments)
    run = Measurement(configuration)
    with run.sandbox.lock():
        if options.sample:
            sample(run, options.sample, options.seed)
        else:
            _measure(run, options.page, every=options.all, aged=options.aged)


def _run_pages(run: Measurement, pages: list[Page]) -> tuple[dict[str, Ran], list[str]]:
    """Runs several pages in parallel. Returns the results of those that passed, and the names of those that failed."""
    measured: dict[str, Ran] = {}
    failed: list[str] = []
    with ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), 4)) as pool:
        running = {page.name: pool.submit(run.run, page) for page in pages}
        for name, future in running.items():
            try:
                measured[name] = future.result()
            except Fault as fault:
                failed.append(name)
                say(f"{name}: {fault}")
                continue
            say(f"{name}: {len(measured[name].examples)} examples in {measured[name].seconds} s")
    return measured, failed


def _chosen(
    configuration: Configuration, pages: list[Page], names: list[str] | None, *, every: bool, aged: bool
) -> list[Page]:
    """The pages to measure, slowest first. Throws: ``Fault`` for a page that does not exist."""
    check_names("page", names or (), [page.name for page in pages])
    known = floor.read_state(configuration, pages).measured
    why = {page.name: known.stale_page(page.name) for page in pages}
    if aged:
        why |= {page.name: "is aged" for page in pages if known.aged(page.name)}
    chosen = [page for page in pages if (page.name in names if names else every or why[page.name])]
    for page in chosen:
        say(f"{page.name}: {why[page.name] or 'is current, and measured again'}")
    return _longest_first(chosen, known)


def _longest_first(pages: list[Page], known: Measured) -> list[Page]:
    took = {name: lines.seconds for name, lines in known.proof.pages.items()}
    return sorted(pages, key=lambda page: -took.get(page.name, 0.0))


def sample(run: Measurement, count: int, seed: int) -> None:
    """Measures some pages whose result holds, aged ones first, and compares. Throws: ``Fault``."""
    configuration = run.configuration
    command, file = configuration.command("proof"), configuration.result(LINES)
    pages = read_pages(configuration, configuration.root / configuration.output / "proof" / "plan")
    known = floor.read_state(configuration, pages).measured
    holding = [page for page in pages if known.stale_page(page.name) is None]
    order = random.Random(seed).sample(holding, len(holding))
    chosen = sorted(order, key=lambda page: not known.aged(page.name))[:count]
    run.prepare()
    found, failed = _run_pages(run, _longest_first(chosen, known))
    if failed:
        raise Fault(f"{command}: examples of {', '.join(failed)} failed on the measured build; see above")
    of_now = {name: proof_files.page(entry) for name, entry in report(chosen, found, run).items()}
    state = floor.read_state(configuration, pages, replace(known.proof, pages={**known.proof.pages, **of_now}))
    faults = missed(state, of_now)
    print(*faults, sep="\n", end="\n" if faults else "")
    if faults:
        again = configuration.command("proof", f"--page {' '.join(sorted(of_now))}")
        raise Fault(
            f"{command}: {len(faults)} displayed lines are executed no more, which {file} calls executed; "
            f"add examples that execute them, and run {again}"
        )
    ages = sum(known.aged(page.name) for page in holding)
    print(
        f"{command}: {len(of_now)} of {len(holding)} pages measured (seed {seed}), no line missed that {file} calls "
        f"executed; of all pages, {ages} are aged: a source that they execute and do not show has changed"
    )


def _measure(run: Measurement, names: list[str] | None, *, every: bool = False, aged: bool = False) -> None:
    started, configuration = time.monotonic(), run.configuration
    command = configuration.command("proof")
    pages = read_pages(configuration, configuration.root / configuration.output / "proof" / "plan", strict=not names)
    chosen = _chosen(configuration, pages, names, every=every, aged=aged)
    measured: dict[str, Ran] = {}
    failed: list[str] = []
    if chosen:
        run.prepare()
        measured, failed = _run_pages(run, chosen)
    result = report([page for page in chosen if page.name in measured], measured, run)
    known = {**read_earlier(configuration), **result}
    write(configuration, {page.name: known[page.name] for page in pages if page.name in known})
    if failed:
        again = configuration.command("proof", f"--page {' '.join(failed)}")
        raise Fault(f"{command}: examples failed on the measured build; mend them and run {again}")
    state = floor.read_state(configuration, pages)
    faults = missed(state, (page.name for page in pages))
    print(*faults, sep="\n", end="\n" if faults else "")
    if faults:
        raise Fault(f"{command}: {len(faults)} displayed lines are executed by no example of a page that shows them")
    floor.raise_floor(configuration, pages)
    total = figures.all_lines(state.measured)
    print(
        f"{command}: {len(result)} of {len(pages)} pages measured ({time.monotonic() - started:.0f} s); of all, "
        f"{len(total.executed)} displayed lines are executed and none is missed; "
        f"the result is {configuration.result(LINES)}"
    )
