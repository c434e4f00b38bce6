"""The Atom feed of a watched question."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

from modules.llm_platform.domain.dtos.watch_dtos import FactAt, FoundChange, Watch, WatchChange
from modules.llm_platform.presentation.rest.watch_feed import render_feed

AT, LATER = datetime(2026, 11, 25, 6, tzinfo=UTC), datetime(2026, 11, 26, 6, tzinfo=UTC)
WATCH = Watch(id="a1", query="What is the toll <now> & then?", depth="deep", every_s=86_400, created_at=AT)
ATOM = "{http://www.w3.org/2005/Atom}"


def side(value: str, at: datetime) -> FactAt:
    return FactAt(value=value, quote=f"The toll is {value} euros.\x07", source="https://example.org/?a=1&b=2", at=at)


def found(number: int, change: WatchChange) -> FoundChange:
    return FoundChange(number=number, run=2, at=LATER, **dict(change))


def read(*changes: FoundChange) -> ElementTree.Element:
    return ElementTree.fromstring(render_feed(WATCH, changes, "https://here.example/feed.atom?x=1&y=2"))


def test_an_entry_has_both_quotes_with_dates_and_sources() -> None:
    """Quotes of pages may have markup and control characters."""
    change = WatchChange(kind="changed", fact="The toll is … euros.", was=side("<12>", AT), now=side("14", LATER))
    feed = read(found(7, change))
    assert feed.findtext(f"{ATOM}title") == WATCH.query
    assert feed.findtext(f"{ATOM}updated") == "2026-11-26T06:00:00+00:00"
    [entry] = feed.findall(f"{ATOM}entry")
    assert entry.findtext(f"{ATOM}id") == "urn:llm-platform:watch:a1:7"
    assert entry.findtext(f"{ATOM}title") == "Changed: The toll is … euros."
    link = entry.find(f"{ATOM}link")
    assert link is not None
    assert link.get("href") == "https://example.org/?a=1&b=2"
    assert entry.findtext(f"{ATOM}content") == (
        "Before (2026-11-25, https://example.org/?a=1&b=2): The toll is <12> euros.\n"
        "Now (2026-11-26, https://example.org/?a=1&b=2): The toll is 14 euros."
    )


def test_every_kind_of_space_keeps_words_apart() -> None:
    quote = "12\u00a0euros\u202fand\u2009a\u3000half\u2028or\fso \ufffe\ufdd0\ud800of it, \u0645\u06cc\u200c\u0634\u0648\u062f"
    now = FactAt(value="12", quote=quote, source="doc:my file \u00e9.md", at=LATER)
    [entry] = read(found(1, WatchChange(kind="new", fact="x", now=now))).findall(f"{ATOM}entry")
    content = str(entry.findtext(f"{ATOM}content")).partition("): ")[2]
    assert content == "12 euros and a half or so of it, \u0645\u06cc\u200c\u0634\u0648\u062f"
    link = entry.find(f"{ATOM}link")
    assert link is not None
    assert link.get("href") == "doc:my%20file%20%C3%A9.md"


def test_a_feed_without_changes_is_as_old_as_its_watch() -> None:
    feed = read()
    assert feed.findtext(f"{ATOM}updated") == "2026-11-25T06:00:00+00:00"
    assert feed.findall(f"{ATOM}entry") == []


def test_what_is_gone_or_new_has_one_side() -> None:
    gone, new = (
        WatchChange(kind="gone", fact="x", was=side("12", AT)),
        WatchChange(kind="new", fact="x", now=side("14", LATER)),
    )
    feed = read(*(found(n, change) for n, change in enumerate((gone, new))))
    contents = [str(entry.findtext(f"{ATOM}content")) for entry in feed.findall(f"{ATOM}entry")]
    assert [content.split()[0] for content in contents] == ["Before", "Now"]


def test_a_paused_watch_has_an_entry_that_says_why() -> None:
    """Its id has the number of the run, so a second pause is a new entry."""
    paused = WATCH.model_copy(
        update={
            "state": "paused",
            "paused_because": "refused",
            "problem": "503 <busy>",
            "runs": 3,
            "last_run_at": LATER,
        }
    )
    feed = ElementTree.fromstring(render_feed(paused, (), "https://here.example/feed.atom"))
    [entry] = feed.findall(f"{ATOM}entry")
    assert entry.findtext(f"{ATOM}id") == "urn:llm-platform:watch:a1:paused:3"
    assert entry.findtext(f"{ATOM}updated") == feed.findtext(f"{ATOM}updated") == "2026-11-26T06:00:00+00:00"
    assert str(entry.findtext(f"{ATOM}content")).startswith("503 <busy>\n3 runs in a row failed")
