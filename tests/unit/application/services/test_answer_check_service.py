"""The check of the gateway: twenty forms of citations find the right given source, and time is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest
from tests.fakes.metrics import MemoryMetrics
from tests.fakes.tracing import tracing

from modules.llm_platform.application.services.answer_check_service import (
    BROKEN,
    CHECK_TIMEOUT_S,
    COMPARING_SHARE,
    LATE,
    NO_MATERIAL,
    TOO_LONG,
    AnswerCheckService,
    EvidenceCounts,
)
from modules.llm_platform.application.services.verification_service import VerificationService
from modules.llm_platform.application.verification.given_material import collect_given
from modules.llm_platform.application.verification.text_verification import VerificationOptions
from modules.llm_platform.domain.citations.forms.citation_forms import read_citations
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource, CitedText
from modules.llm_platform.domain.dtos.llm_dtos import ChatMessage
from modules.llm_platform.domain.dtos.verification_dtos import MAX_VERIFIED_CHARS
from modules.llm_platform.domain.exceptions import VerificationError
from modules.llm_platform.domain.telemetry.metrics import CHECKED_SENTENCES
from modules.llm_platform.domain.telemetry.spans import CHECK_SPAN, OF_EVERY_SPAN
from modules.llm_platform.infrastructure.unconfigured import unconfigured_page_reader, unconfigured_web_search
from modules.llm_platform.wiring.services import build_answer_checks
from shared.config import Settings

# Title, address, the true statement of the source, and a false one.
SOURCES = (
    (
        "Nordwind handbook",
        "https://nordwind.example/handbook",
        "The heat pump weighs 142 kg",
        "The heat pump weighs 152 kg",
    ),
    (
        "Brennhagen municipality",
        "https://brennhagen.example/about",
        "The town has 8,400 inhabitants",
        "The town has 9,700 inhabitants",
    ),
    (
        "Kestrel data sheet",
        "https://kestrel.example/data",
        "The drone flies for 31 minutes",
        "The drone flies for 45 minutes",
    ),
    (
        "harbour-report.pdf",
        "https://port.example/report.pdf",
        "The harbour opened in 1987",
        "The harbour opened in 1978",
    ),
)
# {s}: the statement, {n}: the number of its source, {m}: the number after it, {t} and {u}: its title and address.
FORMS = {
    "number": "{s} [{n}].",
    "number behind the stop": "{s}.[{n}]",
    "wide brackets": "{s}【{n}】.",
    "brackets of ChatGPT": "{s}【{n}†source】.",
    "parentheses": "{s} ({n}).",
    "labelled number": "{s} (Source {n}).",
    "document": "{s} [Document {n}].",
    "footnote": "{s}[^{n}].",
    "footnote of its own": "{s}[^1].\n\n[^1]: {t}, {u}",
    "list of its own": "{s} [1].\n\nSources:\n1. {t} - {u}",
    "linked number": "{s} [[{n}]]({u}).",
    "link": "{s} ([{t}]({u})).",
    "address": "{s}: {u}",
    "address in angle brackets": "{s} <{u}>.",
    "title in brackets": "{s} [{t}].",
    "Source: title": "{s}. Source: {t}",
    "according to": "According to the {t}, {l}.",
    "cite tag of Claude": '<cite index="{n}-1">{s}.</cite>',
    "several": "{s} [{n}, {m}].",
    "range": "{s} [{n}-{m}].",
    "Perplexity": "{s}[{n}][{m}].",
    "superscript": "{s}.{p}",
}


def service(**how: Any) -> AnswerCheckService:
    options = VerificationOptions(timeout_s=how.pop("verification_s", 30.0))
    read_text = how.pop("read_text", None)
    verification = VerificationService(
        unconfigured_page_reader("gateway", "not given"), unconfigured_web_search("gateway", "not given"),
        options=options, read_text=read_text,
    )  # fmt: skip
    return AnswerCheckService(verification, **{"timeout_s": 30.0, **how})


def material() -> tuple[CitedSource, ...]:
    blocks = [f"[{number}] {title} {url}\n{true}." for number, (title, url, true, _) in enumerate(SOURCES, 1)]
    return collect_given([ChatMessage(role="user", content="\n\n".join([*blocks, "What do you know?"]))])


async def ready(given: Sequence[CitedSource]) -> Sequence[CitedSource]:
    return given


def waiting(given: Sequence[CitedSource]) -> Awaitable[Sequence[CitedSource]]:
    return asyncio.ensure_future(ready(given))


def write(form: str, position: int, statement: str) -> str:
    title, url, *_ = SOURCES[position]
    number = position + 1
    lower = statement[0].lower() + statement[1:]
    places = {"n": number, "m": number % len(SOURCES) + 1, "t": title, "u": url, "p": "¹²³⁴"[position]}
    return FORMS[form].format(s=statement, l=lower, **places)


@pytest.mark.parametrize("form", FORMS)
async def test_each_form_is_bound_to_the_source_that_it_names(form: str) -> None:
    """At least .98 of the citations: here all of them, whether the statement is true or false."""
    checks, given = service(), material()
    for position, (title, url, true, false) in enumerate(SOURCES):
        if form == "range" and position == len(SOURCES) - 1:
            continue  # 4-1 is no range.
        for statement in (true, false):
            evidence = await checks.check(write(form, position, statement), waiting(given))
            sources = {source.index: (source.title, source.url) for source in evidence.sources}
            cited = [sources[one.source_index] for one in evidence.citations if one.cited_by == "model"]
            assert title in dict(cited) or url in dict(map(reversed, cited)), (form, statement, cited)
            supported = evidence.counts.supported if statement == true else evidence.counts.contradicts
            assert supported == 1, (form, statement, evidence.counts)


async def test_without_material_or_time_all_sentences_are_unchecked() -> None:
    evidence = await service().check("It weighs 142 kg. It is green.", waiting(()))
    assert evidence.counts == EvidenceCounts(unchecked=2)
    assert evidence.degraded[0].reason == NO_MATERIAL

    async def never(text: str, given: Sequence[CitedSource]) -> CitedText:
        await asyncio.Event().wait()
        raise AssertionError

    evidence = await service(timeout_s=0.01, read_text=never).check("It weighs 142 kg [1].", waiting(material()))
    assert evidence.counts == EvidenceCounts(unchecked=1)
    assert evidence.degraded[0].reason == LATE

    async def refuse(text: str, given: Sequence[CitedSource]) -> CitedText:
        raise VerificationError("too many citations")

    evidence = await service(read_text=refuse).check("It weighs 142 kg [1].", waiting(material()))
    assert evidence.counts == EvidenceCounts(unchecked=1)
    assert "too many citations" in evidence.degraded[0].reason


async def test_an_answer_without_words_has_nothing_to_check() -> None:
    assert (await service().check(" …\n", waiting(material()))).counts == EvidenceCounts()


async def test_checks_are_counted_once_and_parts_of_an_answer_are_not() -> None:
    metrics = MemoryMetrics()
    checks = service(metrics=metrics)
    await checks.check_part("The heat pump weighs 152 kg [1].", waiting(material()))
    await checks.check("The heat pump weighs 152 kg [1]. The town has 8,400 inhabitants [2].", waiting(material()))
    assert metrics.values[CHECKED_SENTENCES.name, "contradicts"] == 1
    assert metrics.values[CHECKED_SENTENCES.name, "supported"] == 1


async def test_the_check_of_an_answer_is_a_span_and_parts_of_it_have_none() -> None:
    with tracing() as ended:
        await service().check_part("The heat pump weighs 152 kg [1].", waiting(material()))
        assert not any(span.name == "check answer" for span in ended)
        await service().check("The heat pump weighs 152 kg [1].", waiting(material()))
        await service().check("It is green.", waiting(()))
    found = [span.attributes for span in ended if span.name == "check answer"]
    assert [(span["llm_platform.sources"], span["llm_platform.degraded"]) for span in found] == [(4, 0), (0, 1)]
    assert all(set(span) <= {*CHECK_SPAN.attributes, *OF_EVERY_SPAN} for span in found)


async def test_an_unexpected_error_costs_no_answer() -> None:
    async def fail(text: str, given: Sequence[CitedSource]) -> CitedText:
        raise RuntimeError

    evidence = await service(read_text=fail).check("It weighs 142 kg [1].", waiting(material()))
    assert evidence.counts == EvidenceCounts(unchecked=1)
    assert [part.reason for part in evidence.degraded] == [BROKEN]

    async def fail_to_collect() -> Sequence[CitedSource]:
        raise ValueError

    evidence = await service().check("It is green.", asyncio.ensure_future(fail_to_collect()))
    assert evidence.counts == EvidenceCounts(unchecked=1)
    assert [part.reason for part in evidence.degraded] == [BROKEN]


async def test_a_lone_surrogate_does_not_prevent_the_check() -> None:
    """A model in another process gets the text as UTF-8, which cannot contain a lone surrogate."""

    async def read(text: str, given: Sequence[CitedSource]) -> CitedText:
        return read_citations(text.encode().decode(), given)

    answer = "The heat pump \ud83d weighs 152 kg [1]."
    evidence = await service(read_text=read).check(answer, waiting(material()))
    assert evidence.counts == EvidenceCounts(contradicts=1)
    assert evidence.sentences[0].end == answer.index(" [1]")


@pytest.mark.parametrize("cited", ["", " [1]"])
async def test_sentences_that_are_not_reached_in_time_are_unchecked(cited: str) -> None:
    """The comparison has no time: none of its sentences is lost, and the reason is named."""
    answer = " ".join(f"The heat pump weighs {number} kg{cited}." for number in range(20))
    evidence = await service(verification_s=0.0).check(answer, waiting(material()))
    assert sum(evidence.counts) == 20
    assert evidence.counts.unchecked == 20
    assert any("in time" in part.reason for part in evidence.degraded)


def test_a_comparison_ends_before_the_client_stops_waiting() -> None:
    checks = build_answer_checks(Settings.without_environment(), read_nothing, None, MemoryMetrics())
    assert checks._verification._tools.options.timeout_s == CHECK_TIMEOUT_S * COMPARING_SHARE < checks._timeout_s


async def read_nothing(text: str, given: Sequence[CitedSource]) -> CitedText:
    pytest.fail("the options are read, and no text")


async def test_sentences_behind_the_limit_are_unchecked() -> None:
    wrong = "The heat pump weighs 152 kg [1]. "
    answer = wrong + " " * (MAX_VERIFIED_CHARS - len(wrong)) + "It is green. It is loud."
    evidence = await service().check(answer, waiting(material()))
    assert evidence.counts == EvidenceCounts(contradicts=1, unchecked=2)
    assert evidence.degraded[-1].reason == TOO_LONG
