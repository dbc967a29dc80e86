"""``python -m weaver mutate``: plants small faults in the displayed lines, and finds which of them the examples detect.

Writes ``mutants.json``. Build files, shell scripts, examples, and code outside the package are not mutated.
"""

from __future__ import annotations

import argparse
import datetime
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from pathlib import Path

from weaver.configuration import Configuration
from weaver.fault import Fault, say
from weaver.options import check_names, parse
from weaver.proof import equivalents, floor, result
from weaver.proof.mutants import Mutant
from weaver.proof.planned import read_pages
from weaver.proof.proof_files import MUTANTS
from weaver.proof.result import Region
from weaver.proof.schemata import Schemata
from weaver.proof.shown import Numbers, Place, Shown, read_shown
from weaver.proof.trial import Trial, Verdict, workers
from weaver.sources.listing import Listing

PROGRESS_SECONDS = 20


def work(configuration: Configuration) -> Path:
    """The folder in which a run keeps its progress."""
    return configuration.root / configuration.output / "mutate"


class Run:
    """One run over the ``chosen`` mutants of the displayed lines."""

    def __init__(self, configuration: Configuration, shown: Shown, chosen: set[int]) -> None:
        self.configuration = configuration
        self.shown = shown
        mutants = {number: shown.mutants[number] for number in sorted(chosen)}
        self.sandbox = Schemata(
            configuration, configuration.root / configuration.sandboxes / "mutate", shown.texts, mutants
        )
        self.verdicts: dict[int, Verdict] = {}
        self.failed: dict[str, str] = {}  # pages that fail without a mutant, so that nothing can be said of theirs
        self.log = work(configuration) / "log"

    def check_pages(self) -> None:
        """Throws: ``Fault`` if pages fail without a mutant."""
        if self.failed:
            names = ", ".join(sorted(self.failed))
            raise Fault(f"{len(self.failed)} pages fail without a mutant, and their listings were not tried: {names}")

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Builds, and runs the pages without a mutant."""
        started = time.monotonic()
        self.log.unlink(missing_ok=True)
        say(f"building with {len(self.sandbox.mutants)} mutants")
        self.sandbox.make()
        refused = len(self.sandbox.refused)
        say(f"built in {time.monotonic() - started:.0f} s; {refused} mutants do not compile")
        needed = {name for number in self.sandbox.mutants for name in self.shown.pages_of(number)}
        pages = [page for page in self.shown.pages if page.name in needed]
        started = time.monotonic()
        compiler = {"CXX": str(self.sandbox.compiler)}
        self.trial = Trial(self.sandbox, pages, self.shown.largest, compiler)
        with self.trial.processes:
            self.failed = self.trial.measure(workers())
            passed = len(pages) - len(self.failed)
            say(f"{passed} pages pass without a mutant ({time.monotonic() - started:.0f} s)")
            for message in self.failed.values():
                say(message)
            yield

    def seconds(self, number: int) -> float:
        """The most that the trial of a mutant takes, if it does not hang."""
        return self.trial.seconds(number, self.shown.pages_of(number))

    def try_all(
        self, order: list[int], tell: Callable[[int], None] = lambda number: None, seconds: float = math.inf
    ) -> None:
        """Tries mutants in this order, prints the progress, and calls ``tell`` for each that is done.

        After so many ``seconds`` it begins no further one.
        """
        started = said = time.monotonic()
        order = [
            number
            for number in order
            if number in self.sandbox.mutants and not self.failed.keys() & set(self.shown.pages_of(number))
        ]
        with ThreadPoolExecutor(workers()) as pool:
            running = {
                pool.submit(self.trial.try_mutant, number, self.shown.pages_of(number)): number for number in order
            }
            try:
                for future in as_completed(running):
                    number = running[future]
                    self.verdicts[number] = verdict = future.result()
                    self._record(number, verdict)
                    tell(number)
                    now = time.monotonic()
                    if now - said > PROGRESS_SECONDS:
                        said = now
                        self._progress(order, now - started)
                    if now - started > seconds:
                        pool.shutdown(wait=False, cancel_futures=True)
                        break
            except BaseException:
                # An interrupted run keeps only the results that are already written.
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        self._progress(order, time.monotonic() - started)

    def _progress(self, order: list[int], seconds: float) -> None:
        done = [self.verdicts[number] for number in order if number in self.verdicts]
        killed = sum(verdict.killed for verdict in done)
        left = seconds / max(len(done), 1) * (len(order) - len(done))
        say(f"{len(done)} of {len(order)} mutants, {killed} killed, {seconds:.0f} s, about {left:.0f} s left")

    def _record(self, number: int, verdict: Verdict) -> None:
        outcome = f"killed by {verdict.by}" if verdict.killed else "survived" if verdict.reached else "not reached"
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"{told(self.shown.mutants[number])}: {outcome} ({verdict.seconds:.1f} s)\n")

    def entry(self, place: Place, reasons: dict[int, str]) -> Region:
        """The results of a listing whose mutants have all been tried."""
        tried = [number for number in place.mutants if number in self.verdicts]
        alive = [number for number in tried if not self.verdicts[number].killed]
        mutants = self.shown.mutants
        return Region(
            path=place.listing.path,
            region=place.listing.region,
            first=place.listing.first,
            last=place.listing.last,
            pages=place.pages,
            digest=place.digest,
            killed=len(tried) - len(alive),
            survived=[result.described(mutants[number]) for number in alive if number not in reasons],
            equivalent=[
                {**result.described(mutants[number]), "reason": reasons[number]}
                for number in alive
                if number in reasons
            ],
            refused=sum(number in self.sandbox.refused for number in place.mutants),
            seconds=round(sum(self.verdicts[number].seconds for number in tried), 1),
            text=place.text,
            kills={mutants[number].identity: self.verdicts[number].example for number in tried if number not in alive},
            date=datetime.date.today().isoformat(),
        )


def told(mutant: Mutant) -> str:
    """A one-line description of a mutant for an author."""
    return f"{mutant.path}:{mutant.line}: {mutant.operator}: {mutant.before} -> {mutant.after or '(nothing)'}"


def known_kills(shown: Shown, places: list[Place], earlier: list[Region]) -> dict[int, Verdict]:
    """The mutants that need no new trial: the listing is unchanged, and the example that killed them still exists."""
    found: dict[int, Verdict] = {}
    for place in places:
        present = shown.examples_of(place)
        for region in earlier:
            if (region.path, region.region, region.text) == (place.listing.path, place.listing.region, place.text):
                for number in place.mutants:
                    example = region.kills.get(shown.mutants[number].identity, "")
                    if example in present:
                        found[number] = Verdict(True, "an earlier run", 0.0, True, example)
    return found


def complete(
    run: Run, places: list[Place], keep: list[Region], reasons: dict[int, str], seconds: float
) -> dict[Listing, Region]:
    """Tries all mutants of some listings, the cheapest first: a run that ends early has then finished most of them.

    Saves each finished listing at once, and those to ``keep``, so that an interrupted run can be resumed. After so many
    ``seconds`` it begins no further mutant. Returns: the results of the finished listings.
    """
    done: dict[Listing, Region] = {}
    over = run.sandbox.refused.keys() | run.verdicts.keys()
    left = {place.listing: set(place.mutants) - over for place in places}
    if any(left.values()):
        cost = {place.listing: sum(map(run.seconds, left[place.listing])) for place in places}
        places = sorted(places, key=lambda place: cost[place.listing])

    def settle(number: int | None) -> None:
        before = len(done)
        for place in [place for place in places if place.listing in left]:
            left[place.listing].discard(number or 0)
            if not left[place.listing]:
                del left[place.listing]
                done[place.listing] = run.entry(place, reasons)
        if len(done) > before:
            result.write(run.configuration, work(run.configuration) / "progress.json", [*keep, *done.values()])

    settle(None)
    order = list(dict.fromkeys(number for place in places for number in place.mutants if number not in over))
    run.try_all(order, settle, seconds)
    return done


def sample(
    configuration: Configuration, shown: Shown, regions: list[Region], reasons: dict[int, str], count: int, seed: int
) -> None:
    """Tries a sample of the mutants that the committed result calls killed. Throws: ``Fault`` when one survives."""
    current = [(place, result.kept(place, regions, shown, reasons)) for place in shown.places]
    alive = {entry["id"] for _, region in current if region for entry in [*region.survived, *region.equivalent]}
    candidates = {number for place, region in current if region for number in place.mutants}
    known = sorted(number for number in candidates if shown.mutants[number].identity not in alive)
    stale = [place.name for place, region in current if region is None]
    if stale:
        say(f"{len(stale)} listings have changed since their mutants were tried, and are left out")
    chosen = random.Random(seed).sample(known, min(count, len(known)))
    run = Run(configuration, shown, set(chosen))
    command, file = configuration.command("mutate"), configuration.result(MUTANTS)
    with run.sandbox.lock(), run.prepared():
        run.check_pages()
        run.try_all(chosen)
    survived = [number for number, verdict in run.verdicts.items() if not verdict.killed]
    for number in survived:
        print(told(shown.mutants[number]))
    if survived:
        raise Fault(f"{command}: {len(survived)} of {len(run.verdicts)} mutants survive that {file} calls killed")
    print(f"{command}: {len(run.verdicts)} of {len(known)} mutants tried (seed {seed}), all killed as {file} says")


def report(regions: list[Region], run: Run, reasons: dict[int, str]) -> None:
    """Prints the survivors, with the pages whose examples should detect them. Throws: ``Fault`` for a wrong excuse."""
    shown = run.shown
    for number, verdict in sorted(run.verdicts.items()):
        if not verdict.killed and number not in reasons:
            why = "" if verdict.reached else ", whose examples never come there"
            print(f"{told(shown.mutants[number])} [{', '.join(shown.pages_of(number))}{why}]")
    wrong = [number for number, verdict in run.verdicts.items() if verdict.killed and number in reasons]
    for number in wrong:
        print(f"{told(shown.mutants[number])} [excused, but killed by {run.verdicts[number].by}]")
    by_page = Counter(page for region in regions for page in region.pages)
    for page in sorted(by_page):
        mine = [region for region in regions if page in region.pages]
        say(f"{page}: {_share(mine)}")
    if wrong:
        command, excuses = run.configuration.command("mutate"), run.configuration.result(equivalents.FILE)
        raise Fault(f"{command}: {excuses} excuses {len(wrong)} mutants that an example kills")


def _share(regions: list[Region]) -> str:
    killed = sum(region.killed for region in regions)
    survived, equivalent = (sum(len(getattr(region, key)) for region in regions) for key in ("survived", "equivalent"))
    share = 100 * killed / (killed + survived) if killed + survived else 100
    return f"{killed} of {killed + survived} mutants killed ({share:.1f} %), {equivalent} equivalent"


def _named(shown: Shown, options: argparse.Namespace) -> list[Place]:
    places = shown.places
    if options.region:
        known = {name for place in places for name in (place.listing.region, place.listing.path)}
        check_names("region", options.region, known)
        places = [place for place in places if {place.listing.region, place.listing.path} & set(options.region)]
    if options.page:
        check_names("page", options.page, [page.name for page in shown.pages])
        places = [place for place in places if set(place.pages) & set(options.page)]
    return places


def _is_due(place: Place, region: Region | None) -> bool:
    return region is None or result.is_improvable(place, region)


def main(configuration: Configuration, arguments: list[str]) -> None:
    """Tries the mutants of changed listings, or of the named ones. Throws: ``Fault``."""
    command, root = configuration.command("mutate"), configuration.root
    options = parse(configuration, "mutate", arguments)
    started = time.monotonic()
    folder, file = work(configuration), configuration.result(MUTANTS)
    folder.mkdir(parents=True, exist_ok=True)
    pages = read_pages(configuration, folder / "plan", strict=not (options.page or options.region))
    shown = read_shown(configuration, pages, Numbers(root / configuration.sandboxes / "mutate.numbers.json"))
    excuses = equivalents.read(root / configuration.result(equivalents.FILE))
    reasons = equivalents.excused(excuses, shown.mutants, shown.texts)
    committed = result.read(root / file)
    if options.sample:
        sample(configuration, shown, committed, reasons, options.sample, options.seed)
        return
    named = _named(shown, options)
    if options.list:
        for place in named:
            print(*(told(shown.mutants[number]) for number in place.mutants), sep="\n")
        return
    earlier = [*result.read(folder / "progress.json"), *committed]
    keep = {place.listing: result.kept(place, earlier, shown, reasons) for place in shown.places}
    explicit = bool(options.all or options.region)
    places = [place for place in named if explicit or _is_due(place, keep[place.listing])]
    left_out = f"{shown.left_out} in excused lines, or of locks, left out"
    say(f"{len(shown.mutants)} mutants in {len(shown.places)} listings, {left_out}")
    if shown.unread:
        say(f"not mutated, because tree-sitter cannot read it: {', '.join(shown.unread)}")
    again = {place.listing for place in places}
    held = {listing: region for listing, region in keep.items() if region is not None}
    unchanged = [region for listing, region in held.items() if listing not in again]
    known = {} if explicit else known_kills(shown, places, earlier)
    run = Run(configuration, shown, {number for place in places for number in place.mutants} - known.keys())
    run.verdicts |= known
    if known:
        say(f"{len(known)} mutants were killed by examples that are still there")
    with run.sandbox.lock(), run.prepared() if run.sandbox.mutants else nullcontext():
        finished = complete(run, places, unchanged, reasons, options.minutes * 60) if places else {}
    regions = list((held | finished).values())
    whole = len(finished) == len(places) and not (options.region or options.page)
    result.write(configuration, root / file, regions if whole else [*regions, *result.others(committed, regions)])
    report(regions, run, reasons)
    floor.raise_floor(configuration)
    run.check_pages()
    if len(finished) < len(places):
        say(f"{len(places) - len(finished)} listings are left for the next run")
    print(
        f"{command}: {len(finished)} listings tried ({time.monotonic() - started:.0f} s); "
        f"of {len(regions)} listings in {file}, {_share(regions)}"
    )
