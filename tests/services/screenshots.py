"""Screenshots of the page at / for README and docs, at three widths and in both themes: `make screenshots`.

With a folder as argument, it writes all scenes at all widths, for review after a change of the page.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from tests.services.browser import ROOT, Visit, chromium, serving_page, visiting
from tests.services.page_answers import citation, response

IMAGES = ROOT / "docs" / "images"
MAX_BYTES = 160_000
HEIGHTS = {360: 740, 768: 820, 1280: 600}  # keyed by the width: a phone, a tablet, a desktop
THEMES = ("light", "dark")
PICTURES = {  # by the width, the scene and the browser's language
    (360, "answer", "en"): "page-phone",
    (768, "plan", "en"): "page-tablet",
    (1280, "evidence", "en"): "page",
    (360, "evidence", "ar"): "page-phone-arabic",
    (768, "evidence", "zh-CN"): "page-tablet-chinese",
}
TITLES = ("Field results in a cold climate", "Fifteen homes, two winters", "Defrost cycles at −15 °C")
TEXTS = (
    "Most of the heat comes from outside air. Units deliver their rated output down to −15 °C. Noise stays below 35 dB.",
    "The back-up heater supplied 4 percent of the delivered heat. The coefficient of performance fell to between 1.5 and 2.",
    "Defrosting cost between 3 and 7 percent of the energy in humid weather. Maintenance is recommended every year.",
)
CLAIMS = (  # each with its source, its verdict, and the source's different words
    ("Heat pumps keep working in cold winters, and most of the heat comes from outside air", 1, "supported", None),
    (
        "In a study of 15 homes the back-up heater supplied 9 percent of the delivered heat",
        2,
        "unsupported",
        ("9", "4"),
    ),
    ("Modern units deliver their rated output down to −15 °C", 1, "supported", None),
    ("Below that the coefficient of performance falls to between 1.5 and 2", 2, "supported", None),
    ("Defrosting costs 5 to 10 percent of the energy in humid weather", 3, "partial", ("5 to 10", "3 and 7")),
    ("Noise stays below 35 dB", 1, "supported", None),
    ("Maintenance is needed once a year", 3, "supported", None),
)
UNCITED = "Owners say that rooms stay warm on the coldest night."


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


def span(text: str, words: str, start: int = 0) -> dict[str, int]:
    position = text.index(words, start)
    return {"start": position, "end": position + len(words)}


async def evidence(visit: Visit) -> None:
    """A stored answer with a sentence that its source contradicts, and with its receipt."""
    sentences = [f"{claim} [{source}]." for claim, source, _, _ in CLAIMS]
    text = f"{' '.join(sentences[:3])}\n\n{' '.join(sentences[3:5])} {UNCITED}\n\n{' '.join(sentences[5:])}"
    sources = [
        {"index": number, "title": title, "url": f"https://www.{host}.example/a"}
        for number, (title, host) in enumerate(zip(TITLES, ("energy", "heatstudy", "journal"), strict=True), 1)
    ]
    citations = []
    for claim, source, verdict, words in CLAIMS:
        content = TEXTS[source - 1]
        quoted = next((part for part in content.split(". ") if words and words[1] in part), content.split(". ")[0])
        found = {**citation(text, claim, content, quoted, verdict), "source_index": source}
        if words:
            claimed = span(text, words[0], found["start"])
            found["difference"] = {"claimed": claimed, "found": span(content, words[1]), "kind": "number"}
        citations.append(found)
    metadata = {
        "uncited_sentences": 1,
        "uncited": [span(text, UNCITED)],
        "searches": 3,
        "pages_read": 5,
        "latency_ms": 6200,
    }
    raw = [{**source, "content": content, "published": None} for source, content in zip(sources, TEXTS, strict=True)]
    query = "Do heat pumps keep a house warm in a cold winter?"
    made = response(text, query=query, sources=sources, citations=citations, raw_results=raw, metadata=metadata)
    times = {"created_at": "2026-01-01T00:00:00Z", "finished_at": "2026-01-01T00:00:06Z"}
    job = {"query": query, "depth": "deep", "response": made, **times}
    await visit.play_stored(made)
    await visit.page.route("**/research/abc", lambda route: route.fulfill(json=job))
    await visit.page.goto(f"{visit.base}/#research/abc")
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
    scene.__name__: scene
    for scene in (question, choices, plan, answer, evidence, quote, sources, sent, report, threads)
}


SPOKEN = ("evidence", "plan", "quote")  # scenes for review in three languages


async def main(folder: Path | None) -> None:
    """Write the pictures of the docs, or all scenes into a folder."""
    wanted = dict(PICTURES)
    if folder is not None:
        languages = ("en", "zh-CN", "ar")
        wanted = {
            (width, scene, language): f"{scene}-{width}-{language}"
            for width in HEIGHTS
            for scene in SCENES
            for language in (languages if scene in SPOKEN else languages[:1])
        }
    target = folder or IMAGES
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data:
        async with (
            serving_page(Path(data), "--documents", str(ROOT / "docs"), "--offline") as base,
            chromium() as browser,
        ):
            for (width, scene, language), name in wanted.items():
                for theme in THEMES:
                    async with visiting(browser, base, width, theme, height=HEIGHTS[width], locale=language) as visit:
                        await SCENES[scene](visit)
                        path = target / f"{name}{'-dark' if theme == 'dark' else ''}.png"
                        size = len(await visit.page.screenshot(path=path, animations="disabled"))
                        sys.stdout.write(f"{path.name}: {size / 1000:.0f} kB\n")
                        if size > MAX_BYTES and folder is None:
                            raise SystemExit(f"{path.name} is larger than {MAX_BYTES / 1000:.0f} kB")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
