"""Two runs of a watched question are compared by facts: changed, new, removed or disputed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from modules.llm_platform.domain.dtos.source_dtos import Source, TextKind
from modules.llm_platform.domain.dtos.watch_dtos import LedgerFact, WatchChange, WatchReading
from modules.llm_platform.domain.watches.carry_over import MAX_SOURCES, carry_over
from modules.llm_platform.domain.watches.compare import compare_readings
from modules.llm_platform.domain.watches.page_versions import MAX_STATEMENTS, PageVersion

FIRST = datetime(2026, 11, 25, 6, tzinfo=UTC)
LAST = FIRST + timedelta(days=1)
TOLL = "The toll for a car on the bridge is 12 euros."
HIGHER = "The toll for a car on the bridge is 14 euros."
OTHERS = "The bridge opened in 1998. Cyclists cross free of charge."


def page(text: str, url: str = "https://example.org/toll", kind: TextKind = "page") -> Source:
    return Source(index=1, title="Tolls", url=url, text=text, text_kind=kind)


def reading(at: datetime, *facts: LedgerFact | str, sources: tuple[Source, ...]) -> WatchReading:
    """A run with these facts; a bare quote is a fact of the first source."""
    read = tuple(fact if isinstance(fact, LedgerFact) else quote(fact, sources[0].url) for fact in facts)
    return WatchReading(at=at, language="en", facts=read, sources=sources)


def quote(text: str, url: str, **fields: object) -> LedgerFact:
    return LedgerFact.model_validate({"quote": text, "url": url, **fields})


def changes(was: str, now: str, *, later: str | None = None, rest: str = OTHERS) -> tuple[WatchChange, ...]:
    """Compare a page that said `was` with the page that says `now`. `later` is what the second run quotes."""
    before = reading(FIRST, was, sources=(page(f"{rest}\n\n{was}"),))
    return compare_readings(before, reading(LAST, later or now, sources=(page(f"{rest}\n\n{now}"),)))


@pytest.mark.parametrize(
    ("was", "now", "values"),
    [
        (TOLL, HIGHER, ("12", "14")),
        (TOLL, "A car now pays 15.50 euros to cross the bridge.", ("12", "15.50")),
        ("The museum is closed on Mondays.", "The museum is closed on Tuesdays.", ("Mondays", "Tuesdays")),
        ("The tax in Morwen is due on 31 March.", "The tax in Morwen is due on 30 April.", ("31 March", "30 April")),
        (
            "The coach of FC Marlow is Dario Conti.",
            "The coach of FC Marlow is Sven Rask.",
            ("Dario Conti", "Sven Rask"),
        ),
        ("The trail is open to hikers.", "The trail is not open to hikers.", ("open", "not open")),
        (
            "Fireworks are allowed in the old town.",
            "Fireworks are forbidden in the old town.",
            ("allowed", "forbidden"),
        ),
    ],
)
def test_another_value_is_a_change(was: str, now: str, values: tuple[str, str]) -> None:
    """Each side has the words that differ, or the number alone."""
    [change] = changes(was, now)
    assert change.kind == "changed"
    assert change.was is not None
    assert change.now is not None
    assert (change.was.quote, change.now.quote) == (was, now)
    assert (change.was.at, change.now.at) == (FIRST, LAST)
    assert (change.was.value, change.now.value) == values


def test_a_heading_is_no_part_of_what_changed() -> None:
    """The heading right above a sentence is compared with it, and shown only if it has the value."""
    [change] = changes(f"# Tolls\n{TOLL}", f"# Tolls\n{HIGHER}")
    assert change.was is not None
    assert change.now is not None
    assert (change.fact, change.was.quote, change.now.quote) == (HIGHER.replace("14", "…"), TOLL, HIGHER)
    [change] = changes("# Toll 2026\nA car pays to cross the bridge.", "# Toll 2027\nA car pays to cross the bridge.")
    assert change.now is not None
    assert change.now.quote == "# Toll 2027\nA car pays to cross the bridge."


def test_a_fact_without_figures_changes_with_its_verdict() -> None:
    """No reader of values knows that a withdrawn plan was approved, but the later statement does not support the earlier."""
    [change] = changes("The council approved the plan for the harbour.", "The harbour plan was withdrawn in a hurry.")
    assert change.kind == "changed"


def test_the_fact_of_a_change_is_its_sentence_without_the_value() -> None:
    [change] = changes(TOLL, HIGHER)
    assert change.fact == "The toll for a car on the bridge is … euros."


@pytest.mark.parametrize(
    "now",
    [
        "**The toll** for a car\non the bridge is 12 euros.",
        "A car pays a toll of 12 euros on the bridge.",
        "The toll for a car on the bridge is twelve euros.",
        "Crossing the bridge by car costs a toll of 12 euros.",
    ],
)
def test_other_words_are_no_change(now: str) -> None:
    assert changes(TOLL, now) == ()


def test_the_date_of_the_day_is_no_change() -> None:
    was, now = (f"As of {day} November 2026, the toll for a car is 12 euros." for day in (25, 26))
    assert changes(was, now) == ()
    [change] = changes(was, "As of 26 November 2026, the toll for a car is 14 euros.")
    assert change.now is not None
    assert change.now.value.startswith("14")


def test_another_date_is_a_change_though_the_day_has_a_date_too() -> None:
    [change] = changes("The road closes on 3 December 2026.", "The road closes on 9 December 2026.")
    assert change.kind == "changed"


def test_the_later_run_may_quote_what_the_earlier_one_left_out() -> None:
    """The earlier page said otherwise, so it is a change and not new."""
    before = reading(FIRST, sources=(page(f"{OTHERS} {TOLL}"),))
    [change] = compare_readings(before, reading(LAST, HIGHER, sources=(page(f"{OTHERS} {HIGHER}"),)))
    assert change.kind == "changed"
    assert change.was is not None
    assert change.now is not None
    assert (change.was.quote, change.now.quote) == (TOLL, HIGHER)
    assert (change.was.value, change.now.value) == ("12", "14")


def test_what_a_page_says_no_more_is_gone() -> None:
    before = reading(FIRST, TOLL, sources=(page(f"{OTHERS} {TOLL}"),))
    [change] = compare_readings(before, reading(LAST, sources=(page(OTHERS),)))
    assert (change.kind, change.fact, change.now) == ("gone", TOLL, None)


@pytest.mark.parametrize(
    "later",
    [(), (page(" "),), (page("Tolls, bridges and more.", kind="snippet"),), (page("Accept our cookies to go on."),)],
)
def test_a_page_that_was_not_read_says_nothing(later: tuple[Source, ...]) -> None:
    """Nothing is gone because a page is missing, empty, another one, or known from an excerpt only."""
    before = reading(FIRST, TOLL, sources=(page(f"{OTHERS} {TOLL}"),))
    assert compare_readings(before, reading(LAST, sources=later)) == ()


def test_what_no_page_said_before_is_new() -> None:
    before = reading(FIRST, sources=(page(OTHERS),))
    [change] = compare_readings(before, reading(LAST, TOLL, sources=(page(f"{OTHERS} {TOLL}"),)))
    assert (change.kind, change.fact, change.was) == ("new", TOLL, None)


def test_a_quote_that_answers_nothing_is_not_new() -> None:
    before = reading(FIRST, sources=(page(OTHERS),))
    near = quote("Our readers rate the bridge with 4 stars.", page("").url, is_answer=False)
    assert compare_readings(before, reading(LAST, near, sources=(page(f"{OTHERS} {near.quote}"),))) == ()


@pytest.mark.parametrize(
    ("published", "kinds"), [(None, ["new"]), ("2026-11-26", ["new"]), ("2026-11-25", ["new"]), ("2024-05-01", [])]
)
def test_another_page_is_news_unless_it_is_old(published: str | None, kinds: list[str]) -> None:
    """A page that the search had not found before may be older than the earlier run."""
    fact = quote(TOLL, "https://example.com/news", published=published)
    before = reading(FIRST, sources=(page(OTHERS),))
    later = reading(LAST, fact, sources=(page(OTHERS), page(TOLL, "https://example.com/news")))
    assert [change.kind for change in compare_readings(before, later)] == kinds


def test_another_page_with_a_known_fact_is_not_new() -> None:
    other = page("Cars pay a toll of 12 euros on the bridge.", "https://example.com/news")
    before = reading(FIRST, TOLL, sources=(page(TOLL),))
    later = reading(LAST, TOLL, quote(other.text, other.url), sources=(page(TOLL), other))
    assert compare_readings(before, later) == ()


def test_a_change_that_another_page_contradicts_is_disputed() -> None:
    """`was` names the page that still has the earlier value."""
    other = page(TOLL, "https://example.com/news")
    before = reading(FIRST, TOLL, sources=(page(TOLL), other))
    [change] = compare_readings(before, reading(LAST, HIGHER, sources=(page(HIGHER), other)))
    assert change.kind == "disputed"
    assert change.was is not None
    assert change.now is not None
    assert (change.was.source, change.now.source) == (other.url, page("").url)


def test_a_page_that_contradicts_a_known_one_is_a_dispute() -> None:
    """The row of the later ledger has both sides; it is reported once, and not again at the next run."""
    other = page(HIGHER, "https://example.com/news")
    sides = quote(TOLL, page("").url, dispute=0), quote(HIGHER, other.url, dispute=0)
    before = reading(FIRST, TOLL, sources=(page(TOLL),))
    later = reading(LAST, *sides, sources=(page(TOLL), other))
    [change] = compare_readings(before, later)
    assert change.kind == "disputed"
    assert change.was is not None
    assert change.now is not None
    assert (change.was.value, change.now.value) == ("12", "14")
    assert compare_readings(later, later.model_copy(update={"at": LAST + timedelta(days=1)})) == ()


def test_the_same_change_of_two_pages_is_listed_once() -> None:
    urls = ("https://example.org/a", "https://example.org/b")
    before = reading(FIRST, *(quote(TOLL, url) for url in urls), sources=tuple(page(TOLL, url) for url in urls))
    after = reading(LAST, *(quote(HIGHER, url) for url in urls), sources=tuple(page(HIGHER, url) for url in urls))
    assert [change.kind for change in compare_readings(before, after)] == ["changed"]


@pytest.mark.parametrize("failed", [(), (page(" "),), (page("Accept our cookies to go on."),)])
def test_a_page_that_failed_once_is_compared_when_it_is_read_again(failed: tuple[Source, ...]) -> None:
    """Its facts and its text wait, with the time at which it was read."""
    before = reading(FIRST, TOLL, sources=(page(TOLL),))
    between = carry_over(before, reading(LAST, sources=failed))
    assert compare_readings(between, before.model_copy(update={"at": LAST + timedelta(days=1)})) == ()
    [change] = compare_readings(between, reading(LAST + timedelta(days=1), HIGHER, sources=(page(HIGHER),)))
    assert change.was is not None
    assert change.was.at == FIRST


@pytest.mark.parametrize("wording", [TOLL, "A car pays a toll of 12 euros on the bridge."])
def test_an_answer_stays_watched_though_a_run_quotes_another_one(wording: str) -> None:
    """As its page words it now."""
    before = reading(FIRST, TOLL, sources=(page(f"{OTHERS} {TOLL}"),))
    kept = carry_over(before, reading(LAST, sources=(page(f"{OTHERS} {wording}"),)))
    assert [fact.quote for fact in kept.facts] == [wording]


def test_a_changed_fact_is_not_kept() -> None:
    """Otherwise the next run would report it again."""
    before = reading(FIRST, TOLL, sources=(page(TOLL),))
    kept = carry_over(before, reading(LAST, HIGHER, sources=(page(HIGHER),)))
    assert [fact.quote for fact in kept.facts] == [HIGHER]


def test_pages_that_are_never_read_again_are_dropped_in_the_end() -> None:
    many = tuple(page(TOLL, f"https://example.org/{number}") for number in range(MAX_SOURCES))
    kept = carry_over(reading(FIRST, TOLL, sources=many), reading(LAST, sources=(page(OTHERS),)))
    assert len(kept.sources) == MAX_SOURCES
    assert kept.sources[0].text == OTHERS


def test_two_facts_with_the_same_values_are_two_changes() -> None:
    """One page may raise the toll and the fare of the ferry alike."""
    ferry = "A ticket for the ferry to Morwen costs {} euros."
    before = reading(FIRST, TOLL, ferry.format(12), sources=(page(f"{TOLL}\n\n{ferry.format(12)}\n\n{OTHERS}"),))
    after = reading(LAST, HIGHER, ferry.format(14), sources=(page(f"{HIGHER}\n\n{ferry.format(14)}\n\n{OTHERS}"),))
    found = compare_readings(before, after)
    assert [change.was and change.was.quote for change in found] == [TOLL, ferry.format(12)]


def test_a_page_has_a_limited_number_of_statements() -> None:
    """A statement beyond the limit is neither removed nor new."""
    lines = [f"Hall {number} of the old harbour has a crane of its own." for number in range(MAX_STATEMENTS + 50)]
    long = page("\n\n".join(lines))
    assert len(PageVersion(long, FIRST, "en").statements) == MAX_STATEMENTS
    moved = page("\n\n".join([*lines, "Fishers sell herring on the northern quay each Friday."]))
    earlier = reading(FIRST, "Fishers sell herring on the northern quay.", sources=(moved,))
    assert (
        compare_readings(
            reading(FIRST, "Fishers sell herring on the northern quay each Friday.", sources=(moved,)),
            reading(LAST, sources=(long,)),
        )
        == ()
    )
    assert compare_readings(reading(FIRST, sources=(long,)), earlier.model_copy(update={"at": LAST})) == ()
