"""Sealed answers: their content, and the result of deriving their verdicts again."""

from __future__ import annotations

import json
import time
from datetime import datetime
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError
from tests.fakes.support_model import FakeSupportModel
from tests.support import sealed_answers
from tests.support.fuzz import chance, chosen
from tests.support.sealed_answers import (
    ANSWERED_AT,
    BRIDGE,
    PUBLIC_KEY,
    SEAL_KEY,
    SOURCES,
    TEXT,
    TOWER,
    check_answer,
    make_seals,
)

from modules.llm_platform.application.seals import rederivation
from modules.llm_platform.application.seals.contents import read_members, write_canonical_json, write_members
from modules.llm_platform.application.services import seal_service
from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.alignment import MAX_TEXT_CHARS
from modules.llm_platform.domain.citations.compare.model_verdicts import apply_model_verdict
from modules.llm_platform.domain.citations.marker_completion import MarkerCompleter
from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import TextSpan
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceQuote, EvidenceRow
from modules.llm_platform.domain.dtos.sealed_dtos import (
    MAX_SEALED_CHARS,
    MAX_SEALED_CITATIONS,
    MAX_SEALED_QUOTES,
    MAX_SEALED_UNCITED,
    MAX_VERSION_CHARS,
    CheckedSeal,
    OpenedSeal,
    SealedSource,
    Signature,
    UnpackedSeal,
)
from modules.llm_platform.domain.dtos.source_dtos import Source, SourceRef
from modules.llm_platform.domain.exceptions import SealError, SupportModelError
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.infrastructure import ed25519
from modules.llm_platform.infrastructure.ed25519 import Ed25519Signer
from modules.llm_platform.infrastructure.files import sealed_archive
from modules.llm_platform.presentation.cli.render.seal import OTHER_CHECKER, render_seal_lines

TIMES = ("0001-01-01T00:00:00+01:00", "9999-12-31T23:00:00-14:00")  # not shown in every time zone
REWORDED = Source(
    index=1,
    title="Rules",
    url="https://a.example/rules",
    text="Employees may work remotely on two days a week if their manager agrees.",
)
REWORDED_TEXT = "Staff can do their jobs remotely with the consent of the manager [1]."
TOLL = Source(
    index=1,
    title="Bridge",
    url="https://a.example/bridge",
    text="Cars are not allowed on the old bridge. The toll rose last spring. It has three arches.",
)
TOLL_TEXT = (
    "The toll rose in the last spring season. Cars are not allowed on the old bridge [1]."  # the first is in doubt
)
CERTAIN_TEXT = "The toll rose last spring. Cars are not allowed on the old bridge [1]."
HOSTILE_SECONDS = 20.0  # seconds of the processor; linear time takes a twentieth of it


async def check(data: bytes, model: ISupportModel | None = None) -> CheckedSeal:
    return (await make_seals(model).check(data))[1]


def outcomes(checked: CheckedSeal) -> list[str]:
    return [sentence.derived for sentence in checked.sentences]


async def test_an_answer_comes_back_as_it_was_sealed() -> None:
    """Question, text, citations with offsets and verdicts, and the texts of the cited sources with how they were read."""
    answer = await check_answer()
    seal = make_seals().open(make_seals().seal(answer, SOURCES))
    opened = seal.answer.response
    assert (opened.query, opened.synthesis, opened.citations) == (answer.query, TEXT, answer.citations)
    assert seal.sources == SOURCES[:2]
    sealed = seal.answer.sources[0]
    shown = (sealed.url, sealed.media_type, sealed.read_at, sealed.extraction, sealed.sha256)
    assert shown == (TOWER.url, "text/html", ANSWERED_AT, 0.5, TOWER.sha256)


async def test_json_is_canonical() -> None:
    """Sorted keys and no white space, so that equal answers are equal files, whatever machine writes them."""
    answer = await check_answer()
    first, second = (make_seals().seal(answer, SOURCES) for _ in range(2))
    assert first == second
    written = sealed_archive.unpack(first).members["answer.json"]
    assert (
        written == json.dumps(json.loads(written), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    )


async def test_what_the_answer_does_not_cite_is_left_out() -> None:
    """No other result, no document that was only found, no name in the store, no password in an address."""
    logged_in = TOWER.model_copy(update={"url": "https://me:hunter2@a.example/tower"})
    answer = await check_answer(sources=(logged_in, *SOURCES[1:]))
    quotes = (
        EvidenceQuote(url=logged_in.url, title="Tower", text="It was completed in 1889.", start=37, end=62),
        EvidenceQuote(url="https://c.example/cited-by-nobody", title="Uncited title", text="An uncited sentence."),
    )
    metadata = answer.metadata.model_copy(
        update={
            "files": ("contract-of-alice.pdf",),
            "request_id": "request-7",
            "standalone_query": "How tall is the tower that Bob asked about before?",
        }
    )
    row = EvidenceRow(question="When?", quotes=quotes, state="answered")
    degraded = [
        Degraded(component=component, reason="it is too long")
        for component in (
            "files/contract-of-alice.pdf",
            "documents/hr/carol.md",
            "source/Minutes of Dave",
            "read/eve.test",
        )
    ]
    degraded += [Degraded(component="documents/hr/frank.md", reason="it is too long")]
    degraded += [Degraded(component="searxng/google", reason="captcha")]
    answer = answer.model_copy(update={"evidence": (row,), "metadata": metadata, "degraded": tuple(degraded)})
    data = make_seals().seal(answer, (logged_in, *SOURCES[1:]))
    whole = b"".join(sealed_archive.unpack(data).members.values())
    left = [entry.component for entry in make_seals().open(data).answer.response.degraded]
    assert left == ["files", "documents", "source", "read", "searxng/google"]
    hidden = (
        "alice",
        "Bob",
        "carol",
        "Dave",
        "eve.test",
        "frank",
        "Salaries",
        "Nobody may read",
        "a-topic-of-the-store",
        "hunter2",
        "cited-by-nobody",
        "Uncited title",
    )
    for name in (*hidden, "An uncited sentence", "contract-of-alice", "request-7"):
        assert name.encode() not in whole
    assert b"It was completed in 1889." in whole
    assert b"https://a.example/tower" in whole


async def test_an_answer_with_a_secret_is_not_sealed() -> None:
    """A key that got into a text is never exported, in plain form or escaped as JSON."""
    with pytest.raises(SealError, match="secret"):
        make_seals(secrets=["1280 metres"]).seal(await check_answer(), SOURCES)
    quoted = (await check_answer()).model_copy(update={"query": 'What is pass"word?'})
    with pytest.raises(SealError, match="secret"):
        make_seals(secrets=['pass"word']).seal(quoted, SOURCES)


async def test_a_source_without_its_text_is_not_sealed() -> None:
    """Without the text the verdict could not be derived again."""
    with pytest.raises(SealError, match="not stored any more"):
        make_seals().seal(await check_answer(), SOURCES[:1])


async def test_verdicts_of_words_are_the_same() -> None:
    """Each sentence with a source, and the one without."""
    checked = await check(await sealed_answers.seal_answer())
    assert (outcomes(checked), checked.sealed.is_same_checker, checked.sealed.is_same_page) == (
        ["same"] * 4,
        True,
        True,
    )


async def test_verdicts_of_the_support_model_are_the_same() -> None:
    """The model reads the same passages again."""
    answer = await check_answer(REWORDED_TEXT, (REWORDED,), FakeSupportModel(50.0))
    assert [citation.checked_by for citation in answer.citations] == ["encoder"]
    data = make_seals(FakeSupportModel(50.0)).seal(answer, (REWORDED,))
    assert outcomes(await check(data, FakeSupportModel(50.0))) == ["same"]
    assert outcomes(await check(data, FakeSupportModel(-50.0))) == ["different"]
    missing = await check(data)
    assert (outcomes(missing), missing.sealed.is_same_checker) == (["not_derivable"], False)
    assert missing.sentences[0].citations[0].reason == rederivation.NO_MODEL


async def test_a_quote_that_only_the_support_model_found_is_compared_too() -> None:
    """The words have none in common. Without the model the verdict is open, and another quote is different."""
    text = "Die Mitglieder stimmten gegen den Haushalt, den der Vorstand vorlegte."
    source = REWORDED.model_copy(update={"text": text})
    answer = await check_answer(
        "Der Etat fand bei den Genossen keine Zustimmung [1].", (source,), FakeSupportModel(50.0), "de"
    )
    assert [(one.verdict, one.quote) for one in answer.citations] == [("supported", text)]
    data = make_seals(FakeSupportModel(50.0)).seal(answer, (source,))
    assert (outcomes(await check(data, FakeSupportModel(50.0))), outcomes(await check(data))) == (
        ["same"],
        ["not_derivable"],
    )
    shorter = answer.citations[0].model_copy(update={"quote": text[:20], "quote_end": 20})
    forged = make_seals().seal(answer.model_copy(update={"citations": (shorter,)}), (source,))
    assert outcomes(await check(forged)) == ["different"]


async def test_verdicts_of_a_language_model_are_not_derived_again() -> None:
    """What the words said before it is: another verdict of theirs is different."""
    answer = await check_answer()
    judged = apply_model_verdict(answer.citations[1], "It was completed in 1899", "unsupported")
    sealed = answer.model_copy(update={"citations": (answer.citations[0], judged, answer.citations[2])})
    assert outcomes(await check(make_seals().seal(sealed, SOURCES))) == ["same", "not_derivable", "same", "same"]
    other = sealed.citations[1].model_copy(update={"word_verdict": "supported"})
    forged = sealed.model_copy(update={"citations": (answer.citations[0], other, answer.citations[2])})
    assert outcomes(await check(make_seals().seal(forged, SOURCES)))[1] == "different"


@pytest.mark.parametrize(
    "changes",
    [{"verdict": "supported"}, {"quote": "It was completed in 1899."}, {"quote_start": 0}, {"is_verbatim": True}],
    ids=str,
)
async def test_a_forged_verdict_or_quote_is_different(changes: dict[str, Any]) -> None:
    """Anybody can seal a lie: the digest does not show it, the sources do."""
    answer = await check_answer()
    forged = answer.citations[1].model_copy(update=changes)
    lie = answer.model_copy(update={"citations": (answer.citations[0], forged, answer.citations[2])})
    checked = await check(make_seals().seal(lie, SOURCES))
    assert outcomes(checked) == ["same", "different", "same", "same"]


async def test_a_citation_that_is_not_in_the_text_is_different() -> None:
    """A statement that claims to cite nothing but does is also different."""
    answer = await check_answer()
    moved = answer.citations[0].model_copy(update={"start": 3})
    metadata = answer.metadata.model_copy(update={"uncited": (TextSpan(start=0, end=5),)})
    lie = answer.model_copy(update={"citations": (moved, *answer.citations[1:]), "metadata": metadata})
    checked = await check(make_seals().seal(lie, SOURCES))
    assert outcomes(checked) == ["different"] * 3 + ["same"] * 2 + ["not_derivable"]
    assert "  different: this program finds no such statement" in [
        line.text for line in render_seal_lines(TEXT, checked)
    ]


async def test_a_verdict_that_was_left_out_is_different() -> None:
    """A file cannot hide the sentence that its source contradicts."""
    answer = await check_answer()
    lie = answer.model_copy(update={"citations": (answer.citations[0], answer.citations[2])})
    checked = await check(make_seals().seal(lie, SOURCES))
    assert outcomes(checked) == ["same", "different", "same", "same"]
    assert checked.sentences[1].citations[0].reason == rederivation.LEFT_OUT


async def test_a_language_model_cannot_raise_every_verdict() -> None:
    """A verdict of a model is bound by the model's limits: a changed number is at most partial."""
    answer = await check_answer()
    lie = answer.citations[1].model_copy(
        update={"verdict": "supported", "word_verdict": "unsupported", "checked_by": "model"}
    )
    forged = answer.model_copy(update={"citations": (answer.citations[0], lie, answer.citations[2])})
    checked = await check(make_seals().seal(forged, SOURCES))
    assert checked.sentences[1].citations[0].reason == rederivation.BEYOND_LIMITS
    quoted = lie.model_copy(update={"verdict": "partial", "quote": "It was completed in 1899."})
    forged = answer.model_copy(update={"citations": (answer.citations[0], quoted, answer.citations[2])})
    checked = await check(make_seals().seal(forged, SOURCES))
    assert checked.sentences[1].citations[0].reason == rederivation.OTHER_QUOTE


async def test_a_support_model_cannot_change_a_refuted_verdict() -> None:
    """The support model never judges what the lexical check refutes.

    Another claim is refused, with or without the model installed.
    """
    answer = await check_answer()
    for verdict in ("supported", "partial"):
        lie = answer.citations[1].model_copy(
            update={"verdict": verdict, "word_verdict": "unsupported", "checked_by": "encoder"}
        )
        forged = answer.model_copy(update={"citations": (answer.citations[0], lie, answer.citations[2])})
        data = make_seals().seal(forged, SOURCES)
        for model in (None, FakeSupportModel(50.0)):
            checked = await check(data, model)
            assert outcomes(checked) == ["same", "different", "same", "same"]
            assert checked.sentences[1].citations[0].reason == rederivation.DECIDED_BY_WORDS


async def test_a_support_model_that_fails_derives_nothing() -> None:
    """Verdicts of a failed support model are neither the same nor different."""
    answer = await check_answer(REWORDED_TEXT, (REWORDED,), FakeSupportModel(50.0))
    data = make_seals(FakeSupportModel(50.0)).seal(answer, (REWORDED,))
    checked = await check(data, FakeSupportModel(error=SupportModelError("out of memory")))
    assert outcomes(checked) == ["not_derivable"]
    assert checked.sentences[0].citations[0].reason == rederivation.NOT_READ


def repack(data: bytes, response: ResearchResponse, **changes: Any) -> bytes:
    """Return the file with another answer, without the checks of the program that seals."""
    seal = make_seals().open(data)
    answer = seal.answer.model_copy(update={"response": response, **changes})
    return sealed_archive.pack(write_members(answer, seal.sources, seal.page))


async def test_every_cited_source_is_in_the_file() -> None:
    """A file cannot hide the text that refutes it, or show a source under another name."""
    data = await sealed_answers.seal_answer()
    seal = make_seals().open(data)
    response = seal.answer.response
    elsewhere = response.citations[0].model_copy(update={"source_index": 9, "quote_start": 0, "quote_end": 0})
    renamed = response.sources[0].model_copy(update={"url": "https://other.example/"})
    unknown = SourceRef(index=9, title="Nine", url="https://nine.example/")
    for changes in (
        {"citations": (elsewhere, *response.citations[1:])},
        {"sources": (renamed, *response.sources[1:])},
        {"sources": (*response.sources, unknown)},
    ):
        with pytest.raises(SealError, match=r"(not a|no) sealed answer"):
            await check(repack(data, response.model_copy(update=changes)))


async def test_an_answer_without_its_verdicts_is_not_the_same() -> None:
    """Honest answers may lack them too, so the places are listed as not derivable."""
    answer = await check_answer()
    checked = await check(make_seals().seal(answer.model_copy(update={"citations": ()}), SOURCES))
    assert outcomes(checked) == ["not_derivable"] * 3 + ["same"]
    assert {one.citations[0].reason for one in checked.sentences[:3]} == {rederivation.NO_VERDICT}


async def test_a_statement_without_a_source_cannot_be_hidden() -> None:
    """The first may be the statement that the sources do not answer, which no answer lists."""
    text = f"Towers are of use to many people. {TEXT}"
    answer = await check_answer(text)
    first, last = answer.metadata.uncited
    for listed, expected in (((last,), "not_derivable"), ((first,), "different"), ((first, last), "same")):
        metadata = answer.metadata.model_copy(update={"uncited": listed})
        checked = await check(make_seals().seal(answer.model_copy(update={"metadata": metadata}), SOURCES))
        assert sorted(outcomes(checked)) == sorted(["same"] * 4 + [expected])


async def test_a_marker_of_the_platform_cites_its_own_sentence() -> None:
    """The sentence before it is supported, but not so well that it got a marker too."""
    completer = MarkerCompleter(CitationChecker((TOLL,), "en"), "en")
    text = completer.finish(TOLL_TEXT.replace(" [1]", ""))
    assert text == TOLL_TEXT
    answer = await check_answer(text, (TOLL,), added=completer.added)
    assert [citation.cited_by for citation in answer.citations] == ["platform"]
    assert outcomes(await check(make_seals().seal(answer, (TOLL,)))) == ["same"] * 2


async def test_citations_of_a_marker_after_several_sentences_may_depend_on_a_model() -> None:
    """A model that rejected a sentence leaves no verdict of its own."""
    lowered = FakeSupportModel(-50.0)
    answer = await check_answer(TOLL_TEXT, (TOLL,), lowered)
    assert [citation.checked_by for citation in answer.citations] == ["words"]
    data = make_seals().seal(answer, (TOLL,))
    for model, expected in (
        (lowered, ["same", "same"]),
        (None, ["not_derivable", "not_derivable", "same"]),
        (FakeSupportModel(50.0), ["different", "different", "same"]),
        (FakeSupportModel(error=SupportModelError("out of memory")), ["not_derivable", "not_derivable", "same"]),
    ):
        assert outcomes(await check(data, model)) == expected


@pytest.mark.parametrize("model", [None, FakeSupportModel(50.0), FakeSupportModel(-50.0)], ids=["none", "yes", "no"])
async def test_a_copied_sentence_cannot_be_left_out(model: FakeSupportModel | None) -> None:
    """No model removes the verdict of a verbatim copy, so its marker always cites it."""
    answer = await check_answer(CERTAIN_TEXT, (TOLL,))
    assert len(answer.citations) == 2
    lie = answer.model_copy(update={"citations": answer.citations[1:]})
    assert outcomes(await check(make_seals().seal(lie, (TOLL,)), model)) == ["different", "same"]


async def test_a_verdict_of_words_on_a_sentence_before_a_marker_is_derived() -> None:
    """The words would support it here too: a file cannot invent such a citation."""
    text = "Zebras graze on the plain at night. Cars are not allowed on the old bridge [1]."
    answer = await check_answer(text, (TOLL,))
    (span,) = answer.metadata.uncited
    invented = answer.citations[0].model_copy(update={"start": span.start, "end": span.end})
    lie = answer.model_copy(
        update={
            "citations": (invented, *answer.citations),
            "metadata": answer.metadata.model_copy(update={"uncited": ()}),
        }
    )
    assert outcomes(await check(make_seals().seal(lie, (TOLL,)))) == ["different", "same"]


async def test_short_sentences_of_an_answer_without_citations_are_not_different() -> None:
    """They count as statements only where the text has no others, and passages are added after its check."""
    passages = f"\n\n{CERTAIN_TEXT}"
    answer = await check_answer("It is not. Nobody knows.", (TOLL,))
    assert len(answer.metadata.uncited) == 2
    for uncited in (answer.metadata.uncited, ()):
        metadata = answer.metadata.model_copy(update={"uncited": uncited})
        sources = (SourceRef.of(TOLL),)
        for text in (answer.synthesis, answer.synthesis + passages):
            sealed = answer.model_copy(update={"synthesis": text, "metadata": metadata, "sources": sources})
            assert "different" not in outcomes(await check(make_seals().seal(sealed, (TOLL,))))


async def test_a_long_answer_is_compared_in_linear_time() -> None:
    """Thousands of statements that the file hides or lists, in one paragraph that begins as a message does."""
    before, _, rest = get_messages("en").still_open.partition("{questions}")
    between = rest.partition("{queries}")[0]
    text = (
        before
        + between * 500
        + " ".join(f"Zebras graze on plain {number} at night." for number in range(2000))
        + " Why!"
    )
    answer = (await check_answer(text)).model_copy(update={"sources": (SourceRef.of(TOWER),)})
    hidden = answer.model_copy(update={"metadata": answer.metadata.model_copy(update={"uncited": ()})})
    for sealed in (answer, hidden):
        data, started = make_seals().seal(sealed, SOURCES), time.process_time()
        assert len(outcomes(await check(data))) >= 2000
        assert time.process_time() - started < HOSTILE_SECONDS


async def test_comparing_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time counts for the comparison with the file too."""
    seal = make_seals().open(await sealed_answers.seal_answer())
    found = rederivation._UncitedSentences.list_derived

    def stop(self: Any) -> Any:
        self._signal.stop()
        return found(self)

    monkeypatch.setattr(rederivation._UncitedSentences, "list_derived", stop)
    with pytest.raises(SealError, match="in time"):
        await rederivation.rederive(seal, None)


async def test_messages_after_the_check_are_no_statements() -> None:
    """The stop reason below the text is not a statement that a source could support."""
    messages = get_messages("en")
    still_open = messages.still_open.replace("{questions}", "Who built it in the year").replace(
        "{queries}", "builder of it"
    )
    text = f"{TEXT}\n\n{still_open}\n\n{messages.stopped_time}"
    answer = (await check_answer()).model_copy(update={"synthesis": text})
    assert outcomes(await check(make_seals().seal(answer, SOURCES))) == ["same"] * 4


@pytest.mark.parametrize(
    "changes",
    [
        {"quote_url": "javascript:alert(1)"},
        {"quote_url": "https://other.example/"},
        {"page": 7},
        {"score": 0.99},
        {"checked_against": "document"},
    ],
    ids=str,
)
async def test_the_whole_receipt_is_compared(changes: dict[str, Any]) -> None:
    """The comparison includes the address, the page, the score and the read text. A script address is not a link."""
    answer = await check_answer()
    forged = answer.citations[1].model_copy(update=changes)
    lie = answer.model_copy(update={"citations": (answer.citations[0], forged, answer.citations[2])})
    data = make_seals().seal(lie, SOURCES)
    assert outcomes(await check(data)) == ["same", "different", "same", "same"]
    assert 'href="javascript' not in make_seals().open(data).page


async def test_quotes_of_the_ledger_stand_in_their_sources() -> None:
    """At the offsets that the file names."""
    quote = EvidenceQuote(url=TOWER.url, title="Tower", text="It was completed in 1889.", start=37, end=62)
    row = EvidenceRow(question="When?", quotes=(quote,), state="answered")
    answer = (await check_answer()).model_copy(update={"evidence": (row,)})
    data = make_seals().seal(answer, SOURCES)
    response = make_seals().open(data).answer.response
    assert response.evidence == (row,)
    lie = row.model_copy(update={"quotes": (quote.model_copy(update={"text": "It was completed in 1899."}),)})
    with pytest.raises(SealError, match="ledger"):
        await check(repack(data, response.model_copy(update={"evidence": (lie,)})))


@pytest.mark.parametrize("changes", [{"latency_ms": 10**400}, {"latency_ms": 2**60}], ids=["long", "large"])
async def test_numbers_that_cannot_be_shown_are_refused(changes: dict[str, Any]) -> None:
    """And times that no time zone of this machine has."""
    data = await sealed_answers.seal_answer()
    response = make_seals().open(data).answer.response
    metadata = response.metadata.model_copy(update=changes)
    with pytest.raises(SealError):
        await check(repack(data, response.model_copy(update={"metadata": metadata})))
    for when in TIMES:
        with pytest.raises(SealError):
            await check(repack(data, response, answered_at=datetime.fromisoformat(when)))


async def test_numbers_of_a_schema_may_be_large() -> None:
    """An identifier is longer than the numbers of this program."""
    answer = (await check_answer()).model_copy(update={"output": {"id": 2**60, "height": 330.5}})
    data = make_seals().seal(answer, SOURCES)
    assert make_seals().open(data).answer.response.output == answer.output
    assert outcomes(await check(data)) == ["same"] * 4


async def test_an_answer_in_ambiguous_json_is_refused() -> None:
    """Parsers disagree about duplicate keys, so they are refused. Endlessly nested lists are refused too."""
    members = sealed_archive.unpack(await sealed_answers.seal_answer()).members
    written = members["answer.json"]
    for data in (
        json.dumps(json.loads(written)).encode(),
        written.replace(b'{"answered_at"', b'{"answered_at":null,"answered_at"', 1),
        written.replace(b"Eiffel", b"\\u0045iffel", 1),
        written + b"\n",
        b"[" * 1_000_000,
        b'{"format":NaN}',
    ):
        with pytest.raises(SealError, match=r"(not a|no) sealed answer"):
            await check(sealed_archive.pack({**members, "answer.json": data}))


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(b'{"sources":[' + b"{}," * 700_000 + b"{}]}", id="sources"),
        pytest.param(b'{"response":{"citations":[' + b"{}," * 2_000_000 + b"{}]}}", id="citations"),
        pytest.param(b'{"sources":[' + b"[[[]]]," * 700_000 + b"[]]}", id="lists"),
        pytest.param(b"{" + b",".join(b'"%07d":0' % number for number in range(500_000)) + b"}", id="keys"),
    ],
)  # fmt: skip
async def test_too_many_values_are_refused(written: bytes) -> None:
    """Before any of them is an object: a file of 33 kB unpacks to millions, each with several errors."""
    members = sealed_archive.unpack(await sealed_answers.seal_answer()).members
    with pytest.raises(SealError, match="more than 250,000 values"):
        read_members(UnpackedSeal({**members, "answer.json": written}, ""))


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(b'{"sources":[%s{}]}', id="sources"),
        pytest.param(b'{"response":{"citations":[%s{}]}}', id="citations"),
        pytest.param(b'{"response":{"citations":[{"cells":[%s{}]}]}}', id="cells"),
        pytest.param(b'{"response":{"evidence":[{"quotes":[%s{}]}]}}', id="quotes"),
        pytest.param(b'{"response":{"evidence":[{"words":[%s{}]}]}}', id="words"),
        pytest.param(b'{"response":{"metadata":{"uncited":[%s{}]}}}', id="statements"),
        pytest.param(b'{"response":{"raw_results":[%s{}]}}', id="results"),
        pytest.param(b'{"sources":[{"pages":[%s{}]}]}', id="pages"),
    ],
)  # fmt: skip
async def test_a_list_ends_at_its_first_bad_item(written: bytes) -> None:
    """Each item would give several errors, which are larger than the file."""
    members = sealed_archive.unpack(await sealed_answers.seal_answer()).members
    with pytest.raises(SealError) as raised:
        read_members(UnpackedSeal({**members, "answer.json": written % (b"{}," * 1000)}, ""))
    assert isinstance(raised.value.__cause__, ValidationError)
    assert raised.value.__cause__.error_count() < 30


async def test_values_are_counted_outside_of_texts_in_linear_time() -> None:
    """Commas in a text are none, and broken JSON is read once."""
    seal = make_seals().open(await sealed_answers.seal_answer())
    text = ',[{"' * 80_000
    answer = seal.answer.model_copy(update={"response": seal.answer.response.model_copy(update={"query": text})})
    members = write_members(answer, seal.sources, seal.page)
    assert read_members(UnpackedSeal(members, "")).answer.response.query == text
    began = time.process_time()
    for broken in (b'"', b'\\"', b'"\\', b"\\", b'a"', b'""'):
        with pytest.raises(SealError):
            read_members(UnpackedSeal({**members, "answer.json": broken * 3_000_000}, ""))
    assert time.process_time() - began < HOSTILE_SECONDS


@pytest.mark.parametrize("finding", ["contradicts", None, "zzz", 1])
async def test_a_finding_that_contradicts_the_verdict_is_refused(finding: object) -> None:
    """The finding follows from the verdict and the difference. A file without it is from an older version."""
    members = sealed_archive.unpack(await sealed_answers.seal_answer()).members
    written = json.loads(members["answer.json"])
    citation = written["response"]["citations"][1]
    citation["difference"] = None
    assert citation["verdict"] == "unsupported"

    def read() -> OpenedSeal:
        return read_members(UnpackedSeal({**members, "answer.json": write_canonical_json(written)}, ""))

    for known in ({"finding": "absent"}, {}):
        citation.pop("finding")
        citation |= known
        assert read().answer.response.citations[1].finding == "absent"
    citation["finding"] = finding
    with pytest.raises(SealError, match=r"`response\.citations\.finding`"):
        read()


async def test_too_many_statements_or_quotes_are_refused() -> None:
    """Each of them is compared and shown."""
    data = await sealed_answers.seal_answer()
    response = make_seals().open(data).answer.response
    quote = EvidenceQuote(url=TOWER.url, title="", text="It", start=37, end=39)
    row = EvidenceRow(question="When?", quotes=(quote,) * (MAX_SEALED_QUOTES + 1))
    short, long = TextSpan(start=0, end=1), TextSpan(start=0, end=MAX_SEALED_CHARS)
    for changed in (
        response.model_copy(update={"evidence": (row,)}),
        *(
            response.model_copy(update={"metadata": response.metadata.model_copy(update={"uncited": spans})})
            for spans in ((short,) * (MAX_SEALED_UNCITED + 1), (long,) * 21)
        ),
    ):
        with pytest.raises(SealError, match="more than"):
            await check(repack(data, changed))


async def test_quotes_of_two_sources_with_one_address() -> None:
    """The quote is found in one of the sources. Offsets longer than the quote are refused before any comparison."""
    second = BRIDGE.model_copy(update={"url": f"{TOWER.url}#span"})
    sources = (TOWER, second)
    quote = EvidenceQuote(url=second.url, title="", text="Its main span", start=0, end=13)
    row = EvidenceRow(question="How long?", quotes=(quote,))
    answer = (await check_answer(sources=sources)).model_copy(update={"evidence": (row,)})
    data = make_seals().seal(answer, sources)
    response = make_seals().open(data).answer.response
    assert response.evidence == (row,)
    for changes in ({"end": 10**6}, {"start": 1, "end": 14}, {"text": "Its main spam"}):
        lie = row.model_copy(update={"quotes": (quote.model_copy(update=changes),)})
        with pytest.raises(SealError, match="ledger"):
            make_seals().open(repack(data, response.model_copy(update={"evidence": (lie,)})))


async def test_too_many_citations_are_refused() -> None:
    """Each of them is compared and shown."""
    data = await sealed_answers.seal_answer()
    response = make_seals().open(data).answer.response
    many = response.model_copy(update={"citations": response.citations[:1] * (MAX_SEALED_CITATIONS + 1)})
    with pytest.raises(SealError, match="citations"):
        await check(repack(data, many))


async def test_a_source_is_sealed_as_far_as_the_checker_reads_it() -> None:
    """A longer text in a file is refused."""
    long = BRIDGE.model_copy(update={"text": BRIDGE.text + " More." * MAX_TEXT_CHARS})
    sources = (TOWER, long)
    answer = await check_answer(sources=sources)
    data = make_seals().seal(answer, sources)
    assert set(outcomes(await check(data))) == {"same"}
    seal = make_seals().open(data)
    assert len(seal.sources[1].text) == MAX_TEXT_CHARS
    members = write_members(
        seal.answer.model_copy(update={"sources": tuple(map(SealedSource.of, sources))}), sources, seal.page
    )
    with pytest.raises(SealError, match="characters"):
        await check(sealed_archive.pack(members))


async def test_checking_ends_in_time() -> None:
    """The verdicts and the page share one time."""
    with pytest.raises(SealError, match="in time"):
        await make_seals().check(await sealed_answers.seal_answer(), timeout_s=-1.0)


async def test_a_report_of_forty_sources_is_small() -> None:
    """Texts of 20,000 characters each."""
    random = chance(3)
    words = [f"{random.choice('bcdfglmnprst')}{random.choice('aeiou')}{number}" for number in range(3000)]
    sources = tuple(
        Source(
            index=number,
            title=f"Source {number}",
            url=f"https://a.example/{number}",
            text=f"Tower {number} is {number + 100} metres tall. " + " ".join(random.choices(words, k=3300))[:20_000],
        )
        for number in range(1, 41)
    )
    text = " ".join(f"Tower {number} is {number + 100} metres tall [{number}]." for number in range(1, 41))
    data = make_seals().seal(await check_answer(text, sources), sources)
    assert len(data) <= 1_500_000


async def test_another_page_of_html_is_told() -> None:
    """The page is for reading: a check does not rely on it."""
    unpacked = sealed_archive.unpack(await sealed_answers.seal_answer())
    data = sealed_archive.pack({**unpacked.members, "index.html": b"<p>Another text</p>"})
    checked = await check(data)
    assert (checked.sealed.is_same_page, set(outcomes(checked)), checked.is_different) == (False, {"same"}, True)


async def test_the_page_is_compared_where_the_same_program_wrote_it() -> None:
    """An honest page of another version is another one. What else the file says of its checker decides nothing."""
    seal = make_seals().open(await sealed_answers.seal_answer())

    async def check_other(**stamp: str) -> tuple[bool, bool, bool]:
        answer = seal.answer.model_copy(update={"checker": seal.answer.checker.model_copy(update=stamp)})
        checked = await check(sealed_archive.pack(write_members(answer, seal.sources, "<p>Another</p>")))
        return checked.sealed.is_same_renderer, checked.sealed.is_same_page, checked.is_different

    for stamp in ({"rules": "0" * 64}, {"support_model": "1" * 64}, {"version": "9.9"}):
        assert await check_other(**stamp) == (True, False, True)
    for stamp in ({"page": "0" * 64}, {"page": ""}):
        assert await check_other(**stamp) == (False, False, False)


@pytest.mark.parametrize(
    "version", ["1.0\nEverything is the same.", "\x1b[31m", "1" * 41], ids=["lines", "color", "long"]
)
async def test_a_version_writes_nothing_into_the_report(version: str) -> None:
    """A stranger wrote it: such a file is refused, and a description shows one short line."""
    seal = make_seals().open(await sealed_answers.seal_answer())
    stamp = seal.answer.checker.model_copy(update={"version": version, "rules": "0" * 64})
    answer = seal.answer.model_copy(update={"checker": stamp})
    with pytest.raises(SealError, match=r"(not a|no) sealed answer"):
        await check(sealed_archive.pack(write_members(answer, seal.sources, seal.page)))
    checked = await check(await sealed_answers.seal_answer())
    described = checked.sealed.model_copy(update={"checker": stamp, "is_same_checker": False})
    lines = [line.text for line in render_seal_lines(TEXT, checked.model_copy(update={"sealed": described}))]
    assert not any("\n" in line for line in lines)
    assert max(map(len, lines)) <= len(OTHER_CHECKER) + MAX_VERSION_CHARS


@pytest.mark.parametrize("name", ["answer.json", "index.html", "sources/1.txt"])
async def test_members_must_fit_together(name: str) -> None:
    """A wrong digest of a text and a missing or unreadable member are refused even if the file's digest is right."""
    members = dict(sealed_archive.unpack(await sealed_answers.seal_answer()).members)
    for changed in ({**members, name: b"\xff"}, {key: value for key, value in members.items() if key != name}):
        with pytest.raises(SealError):
            await check(sealed_archive.pack(changed))
    with pytest.raises(SealError):
        await check(sealed_archive.pack({**members, "sources/9.txt": b"More"}))


async def test_an_answer_beyond_its_bounds_is_neither_sealed_nor_checked() -> None:
    """Each sentence would be compared: a file from a stranger must not keep a computer busy."""
    answer = await check_answer()
    endless = answer.model_copy(update={"synthesis": TEXT + " and more" * MAX_SEALED_CHARS})
    with pytest.raises(SealError, match="200,000 characters"):
        make_seals().seal(endless, SOURCES)
    seal = make_seals().open(make_seals().seal(answer, SOURCES))
    written = write_members(seal.answer.model_copy(update={"response": endless}), seal.sources, seal.page)
    with pytest.raises(SealError, match="200,000 characters"):
        await check(sealed_archive.pack(written))
    with pytest.raises(SealError, match="in time"):
        await rederivation.rederive(seal, None, timeout_s=-1.0)


async def test_a_signature_names_its_key() -> None:
    """The signature of the operator's key is checked; the one of another file is invalid."""
    data = await sealed_answers.seal_answer(sign=Ed25519Signer(SEAL_KEY))
    checked = await check(data)
    assert (checked.sealed.signature, checked.sealed.public_key) == ("valid", PUBLIC_KEY)
    members = sealed_archive.unpack(data).members
    of_another = Ed25519Signer(SEAL_KEY)("0" * 64)
    for signature in (of_another, Signature("f" * 64, of_another.value)):
        forged = await check(sealed_archive.pack(members, lambda digest, signature=signature: signature))
        assert (forged.sealed.signature, forged.is_different) == ("invalid", True)


async def test_every_changed_byte_of_a_signature_is_noticed() -> None:
    """The digest does not cover the signature, which is made of it."""
    data = await sealed_answers.seal_answer(sign=Ed25519Signer(SEAL_KEY))
    seals, random = make_seals(), chance(2)
    for place in range(len(data) - 300, len(data)):
        changed = bytearray(data)
        changed[place] ^= random.randrange(1, 256)
        try:
            seal = seals.open(bytes(changed))
        except SealError:
            continue
        assert seal.signature is not None
        assert not ed25519.is_signed(seal.digest, seal.signature)


async def test_a_run_without_an_answer_is_not_sealed() -> None:
    """Wait until it is done."""

    class Jobs:
        async def get(self, research_id: str, *, owner: str) -> Any:
            return type("Job", (), {"response": None, "kind": "research"})

    with pytest.raises(SealError, match=seal_service.NO_ANSWER):
        await make_seals(jobs=Jobs()).seal_stored("r")


JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**30,
    10**400,
    *TIMES,
    1.5,
    "",
    "x",
    "\x1b[31m",
    "\ud800",
    "en-XX",
    [],
    {},
    [None],
    {"a": 1},
)


def mutate(value: Any, random: Random) -> Any:
    """Return the value with one leaf or branch replaced, left out or doubled."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        name = random.choice(list(value))
        if random.random() < 0.1:
            return {key: one for key, one in value.items() if key != name}
        return {**value, name: mutate(value[name], random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        place = random.randrange(len(value))
        if random.random() < 0.1:
            return [*value, value[place]]
        return [*value[:place], mutate(value[place], random), *value[place + 1 :]]
    return random.choice(JUNK)


@pytest.mark.parametrize("portion", range(2))
async def test_a_hostile_answer_is_checked_or_refused(portion: int) -> None:
    """Any content gives a result, or one error that explains the fault."""
    random = chance(portion)
    unpacked = sealed_archive.unpack(await sealed_answers.seal_answer())
    written = json.loads(unpacked.members["answer.json"])
    for _ in range(chosen(150, 5000)):
        changed = mutate(written, random)
        data = write_canonical_json(changed)
        try:
            seal, checked = await make_seals().check(sealed_archive.pack({**unpacked.members, "answer.json": data}))
        except SealError:
            continue
        text = seal.answer.response.synthesis
        assert list(render_seal_lines(text, checked))
        assert checked.model_dump_json()
