"""The passages for a small language model are chosen by words and by two models that read them."""

from __future__ import annotations

from collections.abc import Callable

from tests.fakes.sentence_encoder import FakeSentenceEncoder
from tests.fakes.support_model import FakeSupportModel
from tests.support.cases import for_each

from modules.llm_platform.application.research.write.llm_synthesizer import LLMSynthesizer
from modules.llm_platform.application.research.write.passage_choice import (
    LEAST_LOG_ODDS,
    MAX_READ,
    ChosenPassages,
    PassageChooser,
)
from modules.llm_platform.domain.dtos.answer_dtos import SynthesisReset
from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.exceptions import SupportModelError
from modules.llm_platform.domain.extractive.rendering import ROWS_LEAD
from modules.llm_platform.domain.llm.context_budget import SMALL_BUDGET_TOKENS, SMALL_READ_TOKENS
from modules.llm_platform.domain.ports.sentence_encoder import ISentenceEncoder
from modules.llm_platform.domain.ports.support_model import ISupportModel
from modules.llm_platform.domain.ports.synthesizer import SynthesisRequest
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.domain.text.tokens import count_tokens
from modules.llm_platform.testing.llm import FakeLLM

QUESTION = "How long does the ferry take?"
FILLER = (
    "The ferry of the town is old, and people like to take a photo of it from the pier in the long evenings of summer. "
)
ANSWER = (
    "Crossing needs forty minutes in calm weather, and up to an hour when the wind is strong and the waves are high."
)


def page(index: int, text: str) -> Source:
    return Source(index=index, title=f"Page {index}", url=f"https://example.org/{index}", text=text)


SOURCES = (
    page(1, FILLER * 12),
    page(2, f"{FILLER * 6}\n\n{ANSWER}\n\n{FILLER * 6}"),
    page(3, "Bread is baked at six."),
)


def has_answer(_: str, text: str) -> float:
    return 5.0 if "forty minutes" in text else -5.0


def chooser(
    encoder: ISentenceEncoder | None = None, model: ISupportModel | None = None, timeout_s: float = 5.0
) -> PassageChooser:
    return PassageChooser(encoder or FakeSentenceEncoder(has_answer), model, timeout_s)


async def test_a_passage_in_other_words_is_chosen() -> None:
    """Its sources keep their numbers, and sources without a passage are left out."""
    chosen, is_doubtful, degraded = await chooser(model=FakeSupportModel(answers=has_answer)).choose(
        SOURCES, QUESTION, "en"
    )
    assert chosen is not None
    assert (is_doubtful, degraded) == (False, ())
    assert any(ANSWER in source.text for source in chosen.sources if source.index == 2)
    assert all(source.text for source in chosen.sources)
    sizes = [count_tokens(source.text) for source in chosen.sources]
    assert sum(sizes) <= SMALL_READ_TOKENS
    assert chosen.truncated_tokens == sum(count_tokens(source.text) for source in SOURCES) - sum(sizes)


@for_each("language, is_read", [("en", True), ("de", True), ("sv", False)])
async def test_the_model_reads_the_best_passages_of_the_languages_that_it_knows(language: str, is_read: bool) -> None:
    model = FakeSupportModel(answers=has_answer)
    await chooser(model=model).choose(SOURCES, QUESTION, language)
    assert [len(asked) <= MAX_READ for asked in model.asked[:1]] == [True] * is_read
    assert bool(model.foreign) == (is_read and language != "en")


async def test_words_decide_if_a_model_fails_or_is_late() -> None:
    """The entry `sentences` of `degraded` gives the reason."""
    failing, late = FakeSupportModel(error=SupportModelError("install it")), FakeSupportModel()
    late.may_score.clear()
    for passages, reason in (
        (chooser(model=failing), "support_model: install it"),
        (chooser(model=late, timeout_s=0.01), "timeout: ranking by meaning took longer than 0.01 s,"),
    ):
        writer = LLMSynthesizer(FakeLLM(["Two hours."]), sources_tokens=SMALL_BUDGET_TOKENS, passages=passages)
        written = await writer.synthesize(SynthesisRequest(QUESTION, SOURCES, "en"))
        assert [(one.component, reason in one.reason) for one in written.degraded] == [("sentences", True)]
        assert written.text == "Two hours."


async def test_a_question_without_a_word_of_the_sources_is_left_to_the_words() -> None:
    encoder = FakeSentenceEncoder()
    assert await chooser(encoder).choose(SOURCES, "Wer singt?", "de") == ChosenPassages()
    assert encoder.asked == []


@for_each(
    "sources_tokens, questions, is_chosen",
    [
        (SMALL_BUDGET_TOKENS, (), True),
        (SMALL_BUDGET_TOKENS + 1, (), False),
        (SMALL_BUDGET_TOKENS, ("When?", "How?"), False),
    ],
)
async def test_only_short_answers_of_small_models_read_these_passages(
    sources_tokens: int, questions: tuple[str, ...], is_chosen: bool
) -> None:
    encoder, llm = FakeSentenceEncoder(has_answer), FakeLLM(["Forty minutes [2]."])
    passages = chooser(encoder, FakeSupportModel(answers=has_answer))
    writer = LLMSynthesizer(llm, sources_tokens=sources_tokens, passages=passages)
    written = await writer.synthesize(SynthesisRequest(QUESTION, SOURCES, "en", questions=questions))
    assert bool(encoder.asked) == is_chosen
    if is_chosen:
        assert ANSWER in llm.requests[0].messages[1].content
        assert "Bread is baked" not in llm.requests[0].messages[1].content
        assert written.truncated_tokens > 0


def test_both_models_are_loaded_early() -> None:
    encoder, model = FakeSentenceEncoder(), FakeSupportModel()
    LLMSynthesizer(FakeLLM(), sources_tokens=SMALL_BUDGET_TOKENS, passages=chooser(encoder, model)).begin_loading()
    assert (encoder.is_loading, model.loading) == (True, ["answer"])


@for_each(
    "answers, language, wishes, is_doubtful",
    [
        (lambda _, text: LEAST_LOG_ODDS - 1, "en", None, True),
        (lambda _, text: LEAST_LOG_ODDS if "forty minutes" in text else -9.0, "en", None, False),
        (lambda _, text: LEAST_LOG_ODDS - 1, "de", None, False),
        (lambda _, text: LEAST_LOG_ODDS - 1, "en", "In French, please.", False),
        (SupportModelError("install it"), "en", None, False),
    ],
)
async def test_a_text_is_doubtful_if_no_sentence_seems_to_answer(
    answers: Callable[[str, str], float] | SupportModelError, language: str, wishes: str | None, is_doubtful: bool
) -> None:
    model = (
        FakeSupportModel(error=answers) if isinstance(answers, SupportModelError) else FakeSupportModel(answers=answers)
    )
    writer = LLMSynthesizer(
        FakeLLM(["Two ", "hours [2]."]), sources_tokens=SMALL_BUDGET_TOKENS, passages=chooser(model=model)
    )
    request = SynthesisRequest(QUESTION, SOURCES, language, instructions=wishes, is_streamed=True)
    parts = [part async for part in writer.stream(request)]
    assert [part.is_doubtful for part in parts if not isinstance(part, SynthesisReset)] == [is_doubtful] * len(parts)


@for_each("is_answered", [True, False])
async def test_a_request_may_leave_the_model_out_in_doubt(is_answered: bool) -> None:
    """The text says that the sources do not answer, and the model is not called."""
    model = FakeSupportModel(answers=lambda _, text: 5.0 if is_answered else LEAST_LOG_ODDS - 1)
    llm = FakeLLM(["Forty minutes [2]."])
    writer = LLMSynthesizer(llm, sources_tokens=SMALL_BUDGET_TOKENS, passages=chooser(model=model))
    written = await writer.synthesize(SynthesisRequest(QUESTION, SOURCES, "en", asks_in_doubt=False))
    assert len(llm.requests) == is_answered
    assert (written.answered, written.is_doubtful) == (is_answered, not is_answered)
    assert is_answered or written.text == get_messages("en").not_answered


MEMBERS = "| Name | Age | Fee |\n|---|---|---|\n" + "".join(
    f"| Member {age} | {age} | £{age} |\n" for age in range(12, 60)
)
TABLE = Source(index=3, title="members", url="doc:members.csv", text=MEMBERS, text_kind="document", is_whole=True)


@for_each(
    "question, lead, rows",
    [
        (
            "Who is younger than 14?",
            ROWS_LEAD.format(count=2, read=48),
            ["| Member 12 | 12 | £12 |", "| Member 13 | 13 | £13 |"],
        ),
        ("Who pays the highest fee?", "Highest “Fee” of 48 rows:", ["| Member 59 | 59 | £59 |"]),
        ("Is Member 59 older than 60?", "No:", ["| Member 59 | 59 | £59 |"]),
    ],
)
async def test_a_question_about_rows_gets_these_rows(question: str, lead: str, rows: list[str]) -> None:
    """A line above them says what they are. Other rows and other sources are left out. The person wishes a sentence."""
    llm = FakeLLM(["Some [3]."])
    writer = LLMSynthesizer(llm, sources_tokens=SMALL_BUDGET_TOKENS, passages=chooser())
    asked = SynthesisRequest(question, (*SOURCES[:2], TABLE), "en", instructions="Write one sentence.")
    written = await writer.synthesize(asked)
    read = llm.requests[0].messages[1].content
    assert "\n".join([lead, "", "| Name | Age | Fee |", "| --- | --- | --- |", *rows, ""]) in read
    assert "ferry" not in read
    assert written.truncated_tokens > 0


@for_each(
    ("question", "lead"),
    [
        ("Who is younger than 14?", "2 of 48 rows:"),
        ("Is Member 59 older than 60?", "No:"),
        ("Who pays more, Member 12 or Member 14?", "Member 14: Highest “Fee” of 2 rows:"),
    ],
)
async def test_a_small_model_is_not_asked_what_rows_answer(question: str, lead: str) -> None:
    """It often reads them wrongly. The answer quotes the rows, as one without a model does."""
    llm = FakeLLM(["Some [3]."])
    written = await LLMSynthesizer(llm, sources_tokens=SMALL_BUDGET_TOKENS).synthesize(
        SynthesisRequest(question, (*SOURCES[:2], TABLE), "en")
    )
    assert not llm.requests
    assert (written.text.partition("\n")[0], written.synthesizer, written.answered) == (lead, "extractive", True)


@for_each(("sources_tokens", "is_cut"), [(4000, False), (SMALL_BUDGET_TOKENS + 1, True)])
async def test_a_larger_model_compares_the_rows_that_it_can_read(sources_tokens: int, is_cut: bool) -> None:
    rows = "".join(f"| Guest {age} | {age} | £{age} |\n" for age in range(60, 200 if is_cut else 60))
    source, llm = TABLE.model_copy(update={"text": MEMBERS + rows}), FakeLLM(["Some [3]."])
    await LLMSynthesizer(llm, sources_tokens=sources_tokens).synthesize(
        SynthesisRequest("Who is younger than 14?", (source,), "en")
    )
    assert ("| Member 30 |" in llm.requests[0].messages[1].content) != is_cut


async def test_an_uncertain_question_about_rows_gets_passages() -> None:
    encoder, llm = FakeSentenceEncoder(has_answer), FakeLLM(["Some [3]."])
    writer = LLMSynthesizer(llm, sources_tokens=SMALL_BUDGET_TOKENS, passages=chooser(encoder))
    await writer.synthesize(SynthesisRequest("Which member is the tallest?", (*SOURCES[:2], TABLE), "en"))
    assert encoder.asked


@for_each("passages", [None, chooser()])
@for_each(("sources_tokens", "reads_other_days"), [(SMALL_BUDGET_TOKENS, False), (SMALL_BUDGET_TOKENS + 1, True)])
async def test_a_small_model_reads_no_rows_of_other_days(
    *, passages: PassageChooser | None, sources_tokens: int, reads_other_days: bool
) -> None:
    """If a table lacks the day of the question, a small model takes the nearest day for it."""
    days = "".join(f"| 2026-06-{day} | {name} |\n" for day, name in ((27, "Ann"), (28, "Ines"), (29, "Ravi")))
    rota = f"# Rota\n\n| Day | Early shift |\n|---|---|\n{days}\nPriya swaps on 30 June."
    llm = FakeLLM(["Priya [1]."])
    writer = LLMSynthesizer(llm, sources_tokens=sources_tokens, passages=passages)
    await writer.synthesize(SynthesisRequest("Who has the early shift on 30 June?", (page(1, rota),), "en"))
    read = llm.requests[0].messages[1].content
    assert ("Ravi" in read) == reads_other_days
    assert "Priya swaps" in read
