"""``make browser``: checks the pages in Chromium, as a reader sees them.

Each page is opened at several widths, light and dark. Nothing may be wider than the window, no script may fail, no
other host may be contacted, and axe must find no violation of its accessibility rules. The pages that show a whole
source are all alike, so only one of them is opened. axe takes a minute for a long page: ``--share`` opens a part of the
pages, another part for each commit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from chromium import find_browser
from environment import Fault, say
from share import ALL, Share, share

if TYPE_CHECKING:
    from playwright.sync_api import Page

HTML = Path("docs", "build", "html")
WIDTHS = (320, 390, 800, 1024, 1200, 1366, 1920)
SCHEMES: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
# Folders of similar pages, of which one is opened.
ALIKE = ("sources",)
# A server sends this page if it does not find another: its links begin at the root of the host, and fail from a file.
SERVED = ("404.html",)
# The widest element that no enclosing box scrolls or clips.
_WIDER = """() => {
  const width = document.documentElement.clientWidth;
  const over = document.documentElement.scrollWidth - width;
  let widest = null;
  for (const element of over > 0 ? document.body.querySelectorAll("*") : []) {
    const right = element.getBoundingClientRect().right;
    let box = element.parentElement;
    while (box !== document.body && box && getComputedStyle(box).overflowX === "visible") box = box.parentElement;
    if (right > width && box === document.body && (!widest || right > widest.right)) {
      widest = { right, name: element.tagName.toLowerCase() + [...element.classList].map((one) => "." + one).join("") };
    }
  }
  return over > 0 ? [over, widest ? widest.name : "body"] : null;
}"""
_AXE = (
    "() => axe.run().then((found) => found.violations.map((one) => [one.id, one.help, one.nodes.map((n) => n.target)]))"
)


def find_pages(html: Path) -> list[Path]:
    """The pages to open. Throws: ``Fault``, if there are none."""
    found = sorted(html.rglob("*.html"))
    alike = {folder: [page for page in found if page.relative_to(html).parts[0] == folder] for folder in ALIKE}
    apart = {*ALIKE, *SERVED, "_static"}
    pages = [page for page in found if page.relative_to(html).parts[0] not in apart]
    if not pages:
        raise Fault(f"make browser: there are no pages in {html}; run `make html`")
    return [*pages, *(some[len(some) // 2] for some in alike.values() if some)]


def faults(page: Page, file: Path) -> Iterator[str]:
    """What is wrong with a page at any width."""
    said: list[str] = []
    page.on("console", lambda message: said.append(f"console: {message.text}") if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(f"script: {error}"))
    page.on("request", lambda request: said.append(f"asks {request.url}") if _is_foreign(request.url) else None)
    page.goto(file.resolve().as_uri())
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        if wider := page.evaluate(_WIDER):
            yield f"{wider[0]} pixels wider than a window of {width}: {wider[1]}"
    yield from said


def _is_foreign(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:", "about:"))


def violations(page: Page, axe: str) -> Iterator[str]:
    """The violations that axe finds on the open page."""
    page.evaluate(axe)
    for rule, text, places in page.evaluate(_AXE):
        some = ", ".join(" ".join(map(str, place)) for place in places[:3])
        yield f"axe, {rule}: {text}: {some} ({len(places)} in all)"


def judge(html: Path, part: Share = ALL) -> tuple[list[str], int]:
    """The faults of the pages below a folder, or a share of them, and how many pages were opened."""
    import axe_playwright_python  # type: ignore[import-untyped]
    from playwright.sync_api import sync_playwright

    axe = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    found: list[str] = []
    pages = part.take(find_pages(html))
    with sync_playwright() as playwright:
        # Chromium has no sandbox as root, for example in containers. The pages are our own.
        browser = playwright.chromium.launch(
            executable_path=find_browser("make browser"), args=["--no-sandbox", "--disable-gpu"]
        )
        for number, file in enumerate(pages, 1):
            name = file.relative_to(html)
            for scheme in SCHEMES:
                page = browser.new_page(color_scheme=scheme)
                seen = list(faults(page, file)) if scheme == SCHEMES[0] else []
                page.goto(file.resolve().as_uri())
                seen += [f"{scheme}: {one}" for one in violations(page, axe)]
                found += [f"{name}: {one}" for one in seen]
                page.close()
            if number % 10 == 0:
                say(f"browser: {number} of {len(pages)} pages")
        browser.close()
    return found, len(pages)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="make browser", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--share", type=share, default=ALL, metavar="N/M", help="open a part of the pages")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Opens the pages. Throws: ``Fault``, with all faults."""
    found, pages = judge(HTML, parse(arguments).share)
    if found:
        raise Fault("\n".join([f"make browser: {len(found)} faults in {HTML}:", *found]))
    widths = f"{WIDTHS[0]} to {WIDTHS[-1]}"
    print(f"make browser: {pages} pages at widths from {widths}, and by axe, light and dark: no fault")
