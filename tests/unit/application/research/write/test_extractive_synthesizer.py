"""The writer without a model: where its work runs, and that nothing can make it fail."""

from __future__ import annotations

import asyncio
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.sentence_encoder import FakeSentenceEncoder
from tests.fakes.support_model import FakeSupportModel
from tests.support.cases import for_each
from tests.support.virtual_time import in_virtual_time

from modules.llm_platform.application.research.write.extractive_synthesizer import ExtractiveSynthesizer
from modules.llm_platform.domain.concurrency.long_work import INLINE_CHARS
from modules.llm_platform.domain.dtos.answer_dtos import Synthesis
from modules.llm_platform.domain.dtos.evidence_dtos import EvidenceQuote, EvidenceRow, RowState
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import SupportModelError
from modules.llm_platform.domain.extractive import reranking
from modules.llm_platform.domain.extractive.reranking import AnswerWeights
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest

SENTENCE = "A pump of number {n} moves water through the pipe of the garden and needs a filter against the sand. "


def source(text: str, index: int = 1) -> Source:
    return Source(index=index, title="Pumps", url="https://example.org/p", text=text)


@given(
    st.text(min_size=1, max_size=60),
    st.lists(st.text(max_size=200), min_size=1, max_size=4),
    st.sampled_from(["en", "de", "zh", "xx", "pt-BR"]),
)
def test_any_sources_give_a_text(question: str, texts: list[str], language: str) -> None:
    """An answer has markers."""
    sources = [source(text, number) for number, text in enumerate(texts, 1)]
    written = asyncio.run(ExtractiveSynthesizer().synthesize(SynthesisRequest(question, sources, language)))
    assert written.text.strip()
    assert (
        written.answered is any(f"[{number}]" in written.text for number in range(1, len(texts) + 1))
        or not written.answered
    )
    assert (written.spent.calls, written.synthesizer) == (0, "extractive")


async def test_large_sources_do_not_block_the_event_loop() -> None:
    """They are processed in a thread."""
    large = [source("\n\n".join(SENTENCE.format(n=n) for n in range(260)), index) for index in range(1, 11)]
    assert sum(len(one.text) for one in large) > INLINE_CHARS
    writing = asyncio.create_task(
        ExtractiveSynthesizer().synthesize(SynthesisRequest("What does pump 77 need?", large, "en"))
    )
    turns = 0
    while not writing.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10  # one or two where the loop does the work itself
    assert "A pump of number 77 moves water" in (await writing).text


async def test_without_sources_the_text_says_so() -> None:
    """In the requested language, and not as an answer."""
    written = await ExtractiveSynthesizer().synthesize(SynthesisRequest("What?", (), "fr"))
    assert (written.text, written.answered) == ("Rien n’a été trouvé.", False)


PIPES = source("Pipes of copper are old.")
DIRECT = Source(index=3, title="Engine", url="https://example.org/e", text="The pump of Aston was built in 1810.")


ASTON = "When was the pump of Aston built?"


def quoted(state: RowState, count: int) -> EvidenceRow:
    """A row with this many quotes of one source."""
    quotes = tuple(
        EvidenceQuote(url=PIPES.url, title="Pipes", text=f"Copper pipe {number} is old.") for number in range(count)
    )
    return EvidenceRow(question=ASTON, quotes=quotes, coverage=0.5, state=state)


@pytest.mark.parametrize(("count", "shown"), [(2, 2), (4, 3)])
async def test_partial_answers_follow_a_passage_that_answers(count: int, shown: int) -> None:
    """A further round neither hides the findings of the first search nor makes the text longer than a row.

    Quotes that answer the question are the whole text.
    """
    held = PIPES.model_copy(update={"text": " ".join(quote.text for quote in quoted("partly", count).quotes)})
    texts = {}
    for state in get_args(RowState)[:2]:
        request = SynthesisRequest(ASTON, (held, DIRECT), "en", evidence=(quoted(state, count),))
        texts[state] = (await ExtractiveSynthesizer().synthesize(request)).text
    assert texts["partly"].startswith(f"{DIRECT.text[:-1]} [3].")
    assert texts["partly"].count("Copper pipe") == shown
    assert DIRECT.text[:-1] not in texts["answered"]
    assert texts["answered"].count("Copper pipe") == count


@pytest.mark.parametrize("limit", [1, 40])
async def test_the_first_passage_is_always_included(limit: int) -> None:
    """Also with a limit below one sentence."""
    written = await ExtractiveSynthesizer().synthesize(
        SynthesisRequest("What does a pump move?", [source("A pump moves water.")], "en", max_tokens=limit)
    )
    assert written.text == "A pump moves water [1]."


HANDBOOK = (
    Source(
        index=1,
        title="Handbook",
        url="https://a.example/1",
        text="Full-time staff have 26 days of paid leave a year. Trains are booked in second class.",
    ),
)
ASKED = SynthesisRequest("How much holiday am I entitled to?", HANDBOOK, "en")


def is_about_leave(sentence: str) -> bool:
    """Return whether this is the sentence, and not the next one, which is shown with it."""
    return sentence.startswith("Full-time staff")


def about_leave(question: str, sentence: str) -> float:
    return 0.9 if is_about_leave(sentence) else 0.0


async def test_the_models_find_an_answer_in_other_words() -> None:
    """The encoder names the sentences near the question, and the support model reads them."""
    model = FakeSupportModel(answers=lambda question, sentence: 9.0 if is_about_leave(sentence) else -9.0)
    written = await ExtractiveSynthesizer(FakeSentenceEncoder(about_leave), model).synthesize(ASKED)
    assert written.text == "Full-time staff have 26 days of paid leave a year [1]."
    assert not (await ExtractiveSynthesizer().synthesize(ASKED)).answered
    assert model.asked[0][0][0] == ASKED.question


@for_each(
    "encoder, model, component",
    [
        (FakeSentenceEncoder(error=SupportModelError("install it")), FakeSupportModel(), "sentences"),
        (FakeSentenceEncoder(), FakeSupportModel(error=SupportModelError("install it")), "encoder"),
    ],
)
async def test_the_words_decide_where_a_model_fails(
    encoder: FakeSentenceEncoder, model: FakeSupportModel, component: str
) -> None:
    request = SynthesisRequest("How many days of paid leave do full-time staff have?", HANDBOOK, "en")
    written = await ExtractiveSynthesizer(encoder, model).synthesize(request)
    assert "26 days" in written.text
    assert [(entry.component, entry.reason) for entry in written.degraded] == [(component, "support_model: install it")]


@for_each(
    ("question", "correction", "answered"),
    [
        ("Whose kitten may sleep in the libary?", "Whose kitten may sleep in the library?", True),
        ("Whose kitten is called Micah?", None, False),
        ("Where does Holgrave keep the kitten?", "Where does Holgrove keep the kitten?", False),
    ],
)
async def test_a_misspelled_question_is_answered_in_the_spelling_of_the_sources(
    question: str, correction: str | None, *, answered: bool
) -> None:
    """A name is only suggested."""
    text = "The kitten of Mrs Holgrove may sleep in the library. Dogs wait outside."
    encoder = FakeSentenceEncoder(lambda asked, sentence: 0.9, misspelled=["libary", "holgrave"])
    model = FakeSupportModel(
        answers=lambda asked, sentence: 9.0 if "library" in asked and "kitten" in sentence else -9.0
    )
    written = await ExtractiveSynthesizer(encoder, model).synthesize(SynthesisRequest(question, [source(text)], "en"))
    assert (written.correction, written.answered) == (correction, answered)


URLAUB = "Die Mitarbeiter haben im Jahr dreißig Tage Urlaub. Der Antrag wird zwei Wochen vorher gestellt."
GERMAN = (Source(index=1, title="Handbuch", url="https://a.example/1", text=URLAUB),)


@for_each(
    "question, language",
    [
        ("Wie viele freie Tage gibt es für die Mitarbeiter?", "de"),
        ("How many days off are there for the staff?", "en"),
        ("Combien de jours de congé le personnel a-t-il ?", "fr"),
    ],
)
async def test_a_sentence_in_another_language_than_english_is_read_by_the_model_for_several(
    question: str, language: str
) -> None:
    model = FakeSupportModel(answers=lambda question, sentence: 9.0 if "dreißig" in sentence else -9.0)
    written = await ExtractiveSynthesizer(FakeSentenceEncoder(), model).synthesize(
        SynthesisRequest(question, GERMAN, language)
    )
    assert [len(pairs) for pairs in model.asked] == [2]
    assert model.foreign == model.asked
    assert "dreißig Tage" in written.text


async def test_the_encoder_alone_compares_a_language_that_the_model_cannot_read() -> None:
    encoder, model = FakeSentenceEncoder(), FakeSupportModel()
    await ExtractiveSynthesizer(encoder, model).synthesize(
        SynthesisRequest("Hur många dagar är personalen ledig?", GERMAN, "sv")
    )
    assert len(encoder.asked) == 1
    assert model.asked == []


@for_each("odds, groups", [(9.0, 1), (-9.0, 2)])
async def test_other_languages_are_measured_only_if_no_english_sentence_answers(odds: float, groups: int) -> None:
    """Each sentence of another language takes some milliseconds, and an English answer is preferred anyway."""
    sources = (*HANDBOOK, GERMAN[0].model_copy(update={"index": len(HANDBOOK) + 1}))
    encoder = FakeSentenceEncoder(about_leave)
    model = FakeSupportModel(answers=lambda question, sentence: odds if is_about_leave(sentence) else -9.0)
    await ExtractiveSynthesizer(encoder, model).synthesize(SynthesisRequest(ASKED.question, sources, "en"))
    assert len(encoder.asked) == groups


async def test_both_models_are_loaded_during_the_search() -> None:
    encoder, model = FakeSentenceEncoder(), FakeSupportModel()
    ExtractiveSynthesizer(encoder, model).begin_loading()
    assert (encoder.is_loading, model.loading) == (True, ["answer"])


async def test_a_question_about_rows_is_answered_by_rows() -> None:
    """Before any model is asked, and before evidence that has the words of the question."""
    table = "| Site | Failures |\n|---|---|\n| Graz | 2 |\n| Tromsø | 5 |\n| Lyon | 1 |\n"
    sources = (Source(index=1, title="Sites", url="https://a.example/1", text=table, is_whole=True),)
    encoder = FakeSentenceEncoder()
    quotes = (EvidenceQuote(url=sources[0].url, title="Sites", text="Graz | 2"),)
    row = EvidenceRow(question="Which site had the most failures?", state="answered", quotes=quotes)
    written = await ExtractiveSynthesizer(encoder).synthesize(
        SynthesisRequest(row.question, sources, "en", evidence=(row,))
    )
    assert written.text.splitlines()[0] == "Highest “Failures” of 3 rows:"
    assert written.text.splitlines()[-1] == "| Tromsø | 5 [1] |"
    assert encoder.asked == []


async def test_a_row_and_a_column_that_the_question_names_answer_without_a_model() -> None:
    """Also in a part of the table."""
    table = "| Site | Average COP | Failures |\n|---|---|---|\n| Graz | 3.6 | 2 |\n| Lyon | 3.1 | 1 |\n"
    encoder = FakeSentenceEncoder()
    written = await ExtractiveSynthesizer(encoder).synthesize(
        SynthesisRequest("What is the average COP of Lyon?", (source(table),), "en")
    )
    assert written.text.splitlines()[2:] == ["| Lyon | 3.1 | 1 [1] |"]
    assert encoder.asked == []


SITES = """| Site | Average COP | Contact | Area |
|---|---|---|---|
| Graz | 3.6 | Ida Moe | north |
| Lyon | 3.1 | Ole Frey | south |
"""


def answers_with(text: str) -> FakeSupportModel:
    return FakeSupportModel(answers=lambda question, sentence: 9.0 if sentence == text else -9.0)


async def write_about_sites(question: str, model: FakeSupportModel, table: str = SITES) -> Synthesis:
    request = SynthesisRequest(question, (source(table),), "en")
    return await ExtractiveSynthesizer(FakeSentenceEncoder(lambda question, sentence: 0.0), model).synthesize(request)


async def test_a_table_row_answers_even_in_other_words() -> None:
    """The model reads each cell with its column name, and the whole row is quoted."""
    written = await write_about_sites("Who looks after Graz?", answers_with("Graz: Contact: Ida Moe"))
    assert written.text.splitlines()[2:] == ["| Graz | 3.6 | Ida Moe | north [1] |"]
    assert written.answered


async def test_a_row_without_what_the_question_asks_for_is_no_answer() -> None:
    written = await write_about_sites("Who painted Graz?", FakeSupportModel(answers=-9.0))
    assert not written.answered
    assert "| Graz | 3.6 | Ida Moe | north [1] |" in written.closest


async def test_all_rows_with_the_name_of_the_question_are_listed() -> None:
    table = f"{SITES}| Porto | 3.3 | Ana Sá | south |\n"
    model = answers_with("south: Site: Lyon")
    written = await write_about_sites("Which sites are in the south?", model, table)
    assert [line.split(" | ")[0] for line in written.text.splitlines()[2:]] == ["| Lyon", "| Porto"]


async def test_a_table_in_another_language_than_the_question_is_read_by_the_model_for_several() -> None:
    model = answers_with("Graz: Contact: Ida Moe")
    request = SynthesisRequest("Wer kümmert sich um das Haus in Graz?", (source(SITES),), "de")
    written = await ExtractiveSynthesizer(FakeSentenceEncoder(lambda question, sentence: 0.0), model).synthesize(
        request
    )
    assert "Ida Moe" in written.text
    assert model.foreign == model.asked


async def test_a_sentence_that_may_answer_is_shown_without_a_statement_about_the_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The text does not claim that the sources have no answer, and the likeliest sentence is first."""
    limits = AnswerWeights(
        0.0,
        {"log_odds": 1.0},
        answers_from=1.0,
        stands_out_from=None,
        words_from=-2.0,
        words_within=1.0,
        may_answer_from=-1.0,
    )
    monkeypatch.setattr(reranking, "load_answer_weights", lambda kind: limits)
    model = FakeSupportModel(answers=lambda question, sentence: -0.5 if is_about_leave(sentence) else -9.0)
    written = await ExtractiveSynthesizer(FakeSentenceEncoder(), model).synthesize(ASKED)
    assert (written.answered, written.text) == (False, "No sentence answers this for certain.")
    assert written.closest.splitlines() == [
        "Closest passages:",
        "",
        "- Full-time staff have 26 days of paid leave a year [1].",
        "- Trains are booked in second class [1].",
    ]


async def test_closest_rows_of_a_table_stand_below_the_names_of_its_columns() -> None:
    """A row says nothing without them: `Vega | 4 | 2019` may be any figures."""
    table = "| Boat | Berth | Bought |\n|---|---|---|\n| Vega | 4 | 2019 |\n| Luna | 7 | 2021 |\n"
    sources = (
        Source(index=1, title="Boats", url="https://a.example/1", text=table),
        Source(index=2, title="Rules", url="https://a.example/2", text="The berth of a boat is paid in advance."),
    )
    model = FakeSupportModel(answers=-20.0)
    written = await ExtractiveSynthesizer(FakeSentenceEncoder(lambda question, sentence: 0.0), model).synthesize(
        SynthesisRequest("Who painted the boats?", sources, "en")
    )
    lines = written.closest.splitlines()
    head = lines.index("| Boat | Berth | Bought |")
    assert lines[head - 1] == ""
    assert sorted(lines[head + 2 : head + 4]) == ["| Luna | 7 | 2021 [1] |", "| Vega | 4 | 2019 [1] |"]
    assert "- The berth of a boat is paid in advance [2]." in lines


async def test_a_lead_in_without_its_code_is_no_closest_passage() -> None:
    text = "- Build the image of the service first:\n\n```\nmake image\n```\n\nThe service listens on port 8080.\n"
    sources = (Source(index=1, title="Deploy", url="https://a.example/1", text=text, is_whole=True),)
    model = FakeSupportModel(answers=-20.0)
    written = await ExtractiveSynthesizer(FakeSentenceEncoder(lambda question, sentence: 0.0), model).synthesize(
        SynthesisRequest("Who pays for the service?", sources, "en")
    )
    assert written.closest.splitlines()[2:] == ["- The service listens on port 8080 [1]."]


@for_each("round_number, is_kept", [(0, False), (1, True)])
async def test_lexical_evidence_alone_is_no_answer(round_number: int, is_kept: bool) -> None:
    """A deep answer refuses what a shallow one refuses, unless a further round found a part of the answer."""
    url, text = HANDBOOK[0].url, "Trains are booked in second class."
    row = EvidenceRow(
        question=ASKED.question,
        state="partly",
        quotes=(EvidenceQuote(url=url, title="Handbook", text=text, round=round_number),),
    )
    request = SynthesisRequest(ASKED.question, HANDBOOK, "en", evidence=(row,))
    model = FakeSupportModel(answers=-20.0)
    written = await ExtractiveSynthesizer(FakeSentenceEncoder(lambda question, sentence: 0.0), model).synthesize(
        request
    )
    assert written.answered is is_kept


@in_virtual_time
async def test_models_that_hang_cost_five_seconds() -> None:
    """Then the words decide: an answer without a language model must not fail."""
    model = FakeSupportModel()
    model.may_score.clear()
    request = SynthesisRequest("How many days of paid leave do full-time staff have?", HANDBOOK, "en")
    began = asyncio.get_running_loop().time()
    written = await ExtractiveSynthesizer(FakeSentenceEncoder(), model).synthesize(request)
    assert asyncio.get_running_loop().time() - began == pytest.approx(5.0)
    assert "26 days" in written.text
    assert [entry.component for entry in written.degraded] == ["encoder"]
