"""What the verdict of a model may change in a citation."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.model_verdicts import (
    apply_model_verdict,
    are_within_limits,
    can_be_judged,
    find_highest_verdict,
    list_claims,
)
from modules.llm_platform.domain.dtos.citation_dtos import Citation, ModelVerdict, Verdict
from modules.llm_platform.domain.dtos.source_dtos import Source

VERDICTS = get_args(ModelVerdict)


def citation(verdict: Verdict, quote: str = "Tokens expire after an hour.", *, is_verbatim: bool = False) -> Citation:
    return Citation(
        start=0,
        end=20,
        source_index=1,
        quote=quote,
        quote_end=len(quote),
        verdict=verdict,
        score=0.4,
        is_verbatim=is_verbatim,
    )


@for_each(
    ("claim", "quote"),
    [
        ("The server listens on port 40.", "The server listens on port 14."),
        ("It costs 1,500 dollars.", "The price is 15,000 dollars."),
        ("Four people were hurt.", "Five people were injured."),
        ("The factor is two.", "The factor is 3."),
        ("Call `os.remove` to delete it.", "It is deleted by os.unlink."),
        ("Set MAX_RETRIES to bound it.", "MIN_RETRIES bounds it."),
        ("Run `close` first.", "One must run open before."),
        ("The A320 flew.", "An A220 took off."),
        ("Python3 ships it.", "It comes with python2."),
        ("It rose from 10 to 20.", "It fell from 20 to 10."),
        ("The admin port is 7070.", "The admin port is 7071, the public one 7070."),
        ("去年有三十人。", "去年有四十人。"),
        ("It opens in March.", "It opens in May."),
        ("It was signed on 3 May 2021.", "Signed: 2021-04-03."),
        ("Run VACUUM afterwards.", "Afterwards, ANALYZE is run."),
        ("The policy is volatile-ttl.", "The policy is allkeys-lru."),
        ("The page is at /redoc.", "The page stands at /docs."),
        ("Give --force twice.", "Two times --fast is given."),
    ],
)
def test_a_changed_number_or_identifier_is_partial_at_most(claim: str, quote: str) -> None:
    """A model cannot raise an unsupported sentence to supported if its figures or identifiers differ from those of the
    quote.
    """
    assert find_highest_verdict("unsupported", claim, quote) == "partial"
    assert apply_model_verdict(citation("unsupported", quote), claim, "supported").verdict == "partial"


@for_each(
    ("claim", "quote"),
    [
        ("The city lies by the sea.", "Its harbour made the town rich."),
        ("It grew by 1,500 people.", "Some 1500 more inhabitants were counted."),
        ("`os.remove` deletes it.", "To get rid of it, os.remove() is there."),
    ],
)
def test_another_wording_may_be_raised_to_supported(claim: str, quote: str) -> None:
    """A model may find a paraphrase supported if it has no figures and identifiers, or the same ones."""
    assert apply_model_verdict(citation("unsupported", quote), claim, "supported").verdict == "supported"


def test_a_partial_sentence_needs_its_numbers_in_the_quote() -> None:
    """What the words found partial may be lifted where the quote has the figures too, whatever else it has."""
    quote = "In 2020 the firm had 40 shops and 12 depots."
    assert find_highest_verdict("partial", "There were 12 depots.", quote) == "supported"
    assert find_highest_verdict("partial", "There were 13 depots.", quote) == "partial"


@given(st.sampled_from(VERDICTS), st.sampled_from(VERDICTS), st.text(max_size=60), st.text(min_size=1, max_size=60))
def test_a_model_may_always_lower(words: ModelVerdict, model: ModelVerdict, claim: str, quote: str) -> None:
    """The final verdict is never above the model's. Both verdicts are kept, and the score stays lexical."""
    made = apply_model_verdict(citation(words, quote), claim, model)
    order = ("unsupported", "partial", "supported")
    assert order.index(made.verdict) <= order.index(model)  # type: ignore[arg-type]
    assert (made.word_verdict, made.checked_by, made.score) == (words, "model", 0.4)


def test_copies_and_sentences_without_quote_are_not_judged() -> None:
    """This includes verbatim copies, sentences without a quote, and sentences whose source text is not available."""
    quote = "Tokens expire after an hour, says the manual."
    assert not can_be_judged(citation("supported", quote, is_verbatim=True), "Tokens expire after an *hour*")
    assert can_be_judged(citation("supported", quote), "An hour later tokens expire.")
    assert can_be_judged(citation("unsupported", quote), "Tokens expire after an hour")
    assert not can_be_judged(citation("unsupported", ""), "Tokens never expire.")
    assert can_be_judged(citation("unchecked", quote), "Tokens never expire.")


def test_an_unchecked_sentence_is_raised_or_stays() -> None:
    """A model that sees an excerpt, or a text in another language, may find the sentence there; it cannot rule it out."""
    quote = "Der Dienst lauscht auf Port 7071."
    for claim, verdict, final in (
        ("The service listens on port 7071.", "supported", "supported"),
        ("The service listens on port 7070.", "supported", "partial"),
        ("The service listens.", "partial", "partial"),
        ("The service listens.", "unsupported", "unchecked"),
    ):
        made = apply_model_verdict(citation("unchecked", quote), claim, verdict)  # type: ignore[arg-type]
        assert (made.verdict, made.word_verdict, made.checked_by) == (final, "unchecked", "model")


def test_claims_are_found_by_the_offsets_of_their_citations() -> None:
    """The surrounding Markdown does not matter: lists, tables, code and entities."""
    answer = (
        "# Title 3\n\nTokens expire `a.b` after &lt;one&gt; hour [1][2].\n\n- Guests[2] wait.\n\n"
        "| a | b [1] |\n|--|--|\n| c | d [2] |\n"
    )
    sources = [Source(index=n, title="", url="https://a.test/", text="Tokens expire after an hour.") for n in (1, 2)]
    found = CitationChecker(sources, "en").check(answer).citations
    claims = list_claims(answer, "en")
    assert found
    assert all((citation.start, citation.end) in claims for citation in found)
    assert claims[found[0].start, found[0].end] == "Tokens expire `a.b` after <one> hour"


def test_forged_model_verdicts_are_detected() -> None:
    """An external verdict beyond a model's limits is detected as forged."""
    answer = "The port is 40 [1]."
    words = CitationChecker([Source(index=1, title="", url="https://a.test/", text="The port is 14.")], "en")
    by_words = words.check(answer).citations
    assert by_words[0].verdict == "unsupported"
    fair = [apply_model_verdict(citation, "The port is 40", "supported") for citation in by_words]
    forged = [citation.model_copy(update={"verdict": "supported"}) for citation in fair]
    assert are_within_limits(by_words, answer, "en")
    assert are_within_limits(fair, answer, "en")
    assert not are_within_limits(forged, answer, "en")
    assert not are_within_limits([fair[0].model_copy(update={"start": 3})], answer, "en")
    assert not are_within_limits([fair[0].model_copy(update={"word_verdict": None})], answer, "en")
