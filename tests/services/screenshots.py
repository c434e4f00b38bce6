"""Pictures of the page at / for README and docs, at three widths and in both themes: `make screenshots`.

With a folder as the argument: all scenes at all widths, to be looked at after a change of the page.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from tests.services.browser import OFFLINE, ROOT, Visit, chromium, serving_page, visiting

IMAGES = ROOT / "docs" / "images"
MAX_BYTES = 160_000
HEIGHTS = {360: 740, 768: 820, 1280: 600}  # keyed by the width: a phone, a tablet, a desktop
THEMES = ("light", "dark")
PICTURES = {(360, "answer"): "page-phone", (768, "plan"): "page-tablet", (1280, "quote"): "page"}


async def question(visit: Visit) -> None:
    await visit.page.locator("#query").blur()


async def choices(visit: Visit) -> None:
    await visit.page.click("#form .options-button")
    await visit.page.wait_for_selector(".options-panel [name=depth]")


async def plan(visit: Visit) -> None:
    await visit.ask(depth="report")
    await visit.page.wait_for_selector(".plan-list")


async def answer(visit: Visit) -> None:
    await visit.ask()
    await visit.answered()


async def quote(visit: Visit) -> None:
    await answer(visit)
    await visit.page.locator(".cite").nth(1).click()
    await visit.page.wait_for_selector("#quote mark")


async def sources(visit: Visit) -> None:
    await answer(visit)
    await visit.page.click("#tab-1")


async def sent(visit: Visit) -> None:
    await answer(visit)
    await visit.page.click("#tab-2")


async def report(visit: Visit) -> None:
    await plan(visit)
    await visit.page.get_by_role("button", name="Start the report").click()
    await visit.answered()
    await visit.page.click(".steps summary")


async def threads(visit: Visit) -> None:
    await answer(visit)
    await visit.page.get_by_label("Ask a follow-up question").fill("And when is it partial?")
    await visit.page.keyboard.press("Enter")
    await visit.page.wait_for_selector(".turn:nth-child(2) [role=tab]:not([disabled]):nth-child(2)")
    await visit.open_threads()


SCENES: Mapping[str, Callable[[Visit], Awaitable[None]]] = {
    scene.__name__: scene for scene in (question, choices, plan, answer, quote, sources, sent, report, threads)
}


async def main(folder: Path | None) -> None:
    """Write the pictures of the docs, or all scenes into a folder."""
    wanted = dict(PICTURES)
    if folder is not None:
        wanted = {(width, scene): f"{scene}-{width}" for width in HEIGHTS for scene in SCENES}
    target = folder or IMAGES
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data:
        async with serving_page(Path(data), *OFFLINE) as base, chromium() as browser:
            for (width, scene), name in wanted.items():
                for theme in THEMES:
                    async with visiting(browser, base, width, theme, height=HEIGHTS[width]) as visit:
                        await SCENES[scene](visit)
                        path = target / f"{name}{'-dark' if theme == 'dark' else ''}.png"
                        size = len(await visit.page.screenshot(path=path, animations="disabled"))
                        sys.stdout.write(f"{path.name}: {size / 1000:.0f} kB\n")
                        if size > MAX_BYTES and folder is None:
                            raise SystemExit(f"{path.name} is larger than {MAX_BYTES / 1000:.0f} kB")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
