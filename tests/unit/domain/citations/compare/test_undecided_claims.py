"""What a support model may decide, and what stays with the words."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.citations.compare.undecided_claims import load_support_thresholds
from modules.llm_platform.domain.dtos.citation_dtos import Citation
from modules.llm_platform.domain.dtos.source_dtos import Source

SURE = 50.0  # log-odds
SOURCE = Source(
    index=1,
    title="Rules",
    url="https://a.example/1",
    text="Employees may work remotely on two days a week if their manager agrees. The members voted against the budget.",
)
PARAPHRASE = "Staff can do their jobs from elsewhere with the consent of the manager [1]."
OTHER = SOURCE.model_copy(update={"text": "The office is closed in August, as the manager told the staff."})


def checked_by_model(answer: str, log_odds: float, source: Source = SOURCE, language: str = "en") -> list[Citation]:
    checker = CitationChecker([source], language)
    checker.check(answer)
    for claim in checker.undecided.list_first(100):
        checker.record_log_odds(claim, [log_odds] * len(claim.passages))
    assert not checker.undecided.has_any
    return list(checker.check(answer).citations)


def test_a_paraphrase_is_supported_once_the_model_says_so() -> None:
    (by_words,) = CitationChecker([SOURCE], "en").check(PARAPHRASE).citations
    assert (by_words.checked_by, by_words.word_verdict) == ("words", None)
    assert by_words.verdict != "supported"
    (found,) = checked_by_model(PARAPHRASE, SURE)
    assert (found.verdict, found.checked_by, found.word_verdict) == ("supported", "encoder", by_words.verdict)
    assert (found.score, found.quote) == (by_words.score, by_words.quote)
    assert found.finding is None


def test_what_the_model_doubts_is_not_supported() -> None:
    (found,) = checked_by_model("Employees may work remotely on two days if the week agrees [1].", -SURE)
    assert (found.checked_by, found.verdict, found.finding) == ("encoder", "unsupported", "absent")


@for_each(
    "answer, log_odds, verdict",
    [
        ("The members voted against the budget [1].", -SURE, "supported"),
        ("The members voted for the budget [1].", SURE, "unsupported"),
        ("Employees may work remotely on four days a week [1].", SURE, "unsupported"),
        ("Xylophones rust quickly [1].", SURE, "unsupported"),
    ],
)
def test_the_lexical_check_overrides_the_model(answer: str, log_odds: float, verdict: str) -> None:
    """Whatever a model says, a copy is supported, and a changed fact is not.

    A sentence without a common word is not supported either.
    """
    (found,) = checked_by_model(answer, log_odds)
    assert (found.verdict, found.checked_by) == (verdict, "words")


def test_a_number_that_the_source_lacks_leaves_a_sentence_partial() -> None:
    (found,) = checked_by_model("In 2019, 37 members of the board rejected a budget in the vote [1].", SURE)
    assert found.verdict in ("partial", "unsupported")


def test_an_uncited_clause_leaves_a_sentence_partial() -> None:
    (found,) = checked_by_model("The assembly turned the budget down [1], and the treasurer resigned in anger.", SURE)
    assert found.verdict == "partial"


GERMAN = SOURCE.model_copy(update={"text": "Die Mitglieder stimmten gegen den Haushalt, den der Vorstand vorlegte."})
POLISH = SOURCE.model_copy(
    update={"text": "Członkowie zagłosowali przeciwko budżetowi, który przedstawił zarząd spółdzielni."}
)


@for_each(
    "answer, language",
    [
        ("Der Etat fand bei den Mitgliedern keine Zustimmung [1].", "de"),
        ("Die Zahlen wurden abgelehnt [1].", "de"),
    ],
)
def test_the_model_reads_other_languages(answer: str, language: str) -> None:
    """Claim and source need no common word. A supported claim shows what the model read."""
    (found,) = checked_by_model(answer, SURE, GERMAN, language)
    assert (found.verdict, found.checked_by, found.quote) == ("supported", "encoder", GERMAN.text)
    (doubted,) = checked_by_model(answer, -SURE, GERMAN, language)
    assert doubted.verdict in ("unsupported", "unchecked")


@for_each(
    "answer, language, log_odds",
    [
        ("The people of the club turned down what was planned [1].", "en", -SURE),
        ("The people of the club turned down what was planned [1].", "en", SURE),
        ("成员们否决了预算 [1]。", "zh", SURE),
    ],
)
def test_a_claim_in_another_language_than_its_source_is_unchecked(answer: str, language: str, log_odds: float) -> None:
    """Across two languages the model cannot tell right from wrong statements about the same subject."""
    (found,) = checked_by_model(answer, log_odds, GERMAN, language)
    assert (found.verdict, found.finding, found.checked_by) == ("unchecked", None, "words")


MILL = SOURCE.model_copy(
    update={
        "text": "\n  Die Mühle wurde 1742 von Peter Schmidt gebaut und wiegt 124 Tonnen. Der Turm hat 30 Fenster.\n"
    }
)


@for_each(
    "answer, language",
    [
        ("The mill weighs 142 tonnes, which is a lot [1].", "en"),
        ("The windmill of the town was built in the year 1842 [1].", "en"),
        ("The mill of the town is old [1], and the king gave it to his daughter.", "en"),
        ("磨坊重一百四十二吨，非常重 [1]。", "zh"),
    ],
)
def test_no_model_lifts_another_figure_or_a_clause_without_a_source(answer: str, language: str) -> None:
    """In two languages too, where the words compare figures and names alone."""
    (found,) = checked_by_model(answer, SURE, MILL, language)
    assert (found.checked_by, found.verdict) in (("words", "unchecked"), ("words", "unsupported"))


def test_a_quote_of_a_whole_text_has_no_spaces_around_it() -> None:
    (found,) = checked_by_model("Niemand kennt ihr Alter genau [1].", SURE, MILL, "de")
    assert (found.verdict, found.quote) == ("supported", MILL.text.strip())
    assert MILL.text[found.quote_start : found.quote_end] == found.quote


def test_rows_of_tables_in_another_language_are_left_to_the_words() -> None:
    """A row is as good as its weakest cell, which a model would not see."""
    (found,) = checked_by_model("| What | Who |\n|---|---|\n| builder | somebody else [1] |", SURE, MILL)
    assert found.checked_by == "words"


def test_what_no_model_can_read_is_not_asked_for_again() -> None:
    checker = CitationChecker([GERMAN.model_copy(update={"text": f"{GERMAN.text} " * 20})], "de")
    checker.check("Niemand war dafür [1].")
    assert checker.undecided.list_first(10) == []
    checker.check("Niemand war dafür [1].")
    assert not checker.undecided.has_any


@for_each(
    "answer, language",
    [("Członkowie odrzucili budżet [1].", "pl"), ("The members turned down the budżet of the zarząd [1].", "en")],
)
def test_languages_that_were_not_measured_are_left_to_the_words(answer: str, language: str) -> None:
    """The language of the answer as well as of the source."""
    assert all(found.checked_by == "words" for found in checked_by_model(answer, SURE, POLISH, language))


LEASE = SOURCE.model_copy(
    update={
        "text": "Die Miete beträgt 640 Euro und wird monatlich bezahlt. Der Vermieter stellt im Keller ein Abteil von vier "
        "Quadratmetern bereit. Fahrräder gehören in den Hof, wo zwölf Bügel stehen. Die Treppe reinigt eine Firma, deren Kosten "
        "alle Parteien zu gleichen Teilen tragen. Für Besucher gibt es keinen Stellplatz. Haustiere sind nach Absprache "
        "willkommen, solange sich niemand gestört fühlt. Nach zehn Uhr abends herrscht Ruhe, auch an Feiertagen."
    }
)
NO_COMMON_WORD = "Gäste können hier ihr Auto nicht abstellen [1]."


def test_the_windows_of_a_short_text_are_read_and_the_best_one_counts() -> None:
    """The citation shows the window that decided."""
    checker = CitationChecker([LEASE], "de")
    assert checker.check(NO_COMMON_WORD).citations[0].verdict == "unsupported"
    (claim,) = checker.undecided.list_first(1)
    assert len(claim.passages) > 1
    checker.record_log_odds(claim, [SURE if "Stellplatz" in one.text else -SURE for one in claim.passages])
    (found,) = checker.check(NO_COMMON_WORD).citations
    assert (found.verdict, found.checked_by) == ("supported", "encoder")
    assert "Für Besucher gibt es keinen Stellplatz." in found.quote
    assert len(found.quote) < len(LEASE.text)


def test_a_window_that_does_not_support_a_claim_does_not_reject_it() -> None:
    (found,) = checked_by_model(NO_COMMON_WORD, -SURE, LEASE, "de")
    assert (found.verdict, found.checked_by) == ("unsupported", "words")


def test_a_limit_counts_all_passages_that_are_read() -> None:
    checker = CitationChecker([LEASE], "de")
    checker.check(
        f"{NO_COMMON_WORD} Hunde darf man nur mit Erlaubnis halten [1]. Wer will, kann alles anders machen [1]."
    )
    first, *others = checker.undecided.list_first(len(checker.undecided.list_first(1)[0].passages))
    assert (len(first.passages) > 1, others) == (True, [])


def test_a_long_text_without_a_word_of_the_claim_is_not_read() -> None:
    """Nothing shows which passage to read."""
    long = GERMAN.model_copy(update={"text": f"{GERMAN.text} " * 20})
    (found,) = checked_by_model("Niemand war dafür [1].", SURE, long, "de")
    assert (found.verdict, found.checked_by) == ("unsupported", "words")


def test_a_verdict_on_a_text_that_was_replaced_does_not_count() -> None:
    checker = CitationChecker([SOURCE], "en")
    checker.check(PARAPHRASE)
    (claim,) = checker.undecided.list_first(10)
    checker.replace_source(OTHER)
    checker.check(PARAPHRASE)
    checker.record_log_odds(claim, [SURE])
    (found,) = checker.check(PARAPHRASE).citations
    assert found.checked_by == "words"
    assert checker.undecided.has_any  # on the new text


def test_cleared_claims_stay_with_the_words() -> None:
    checker = CitationChecker([SOURCE], "en")
    before = checker.check(PARAPHRASE)
    checker.undecided.clear()
    assert checker.undecided.list_first(10) == []
    assert checker.check(PARAPHRASE) == before


def test_the_less_the_words_agree_the_surer_the_model_must_be() -> None:
    for is_english in (True, False):
        by_rank = [
            load_support_thresholds(verdict, is_english=is_english)
            for verdict in ("unsupported", "partial", "supported")
        ]
        assert all(limits.partial < limits.supported for limits in by_rank)
        assert [limits.supported for limits in by_rank] == sorted((one.supported for one in by_rank), reverse=True)


@for_each(
    ("answer", "language", "verdict"),
    [
        ("Staff may work from home [1].", "en", "partial"),
        (PARAPHRASE, "en", "supported"),
        ("Die Mitglieder waren dafür [1].", "de", "supported"),
    ],
)
def test_a_short_claim_needs_more_certainty(answer: str, language: str, verdict: str) -> None:
    """Its few words are mostly in the passage. The thresholds of other languages do not depend on the length."""
    source = SOURCE if language == "en" else GERMAN
    lexical = CitationChecker([source], language).check(answer).citations[0].verdict
    enough = load_support_thresholds(lexical, is_english=language == "en").supported
    (found,) = checked_by_model(answer, enough + 0.1, source, language)
    assert (found.verdict, found.checked_by) == (verdict, "encoder")


def test_the_model_reads_the_quote_and_what_else_fits() -> None:
    """Two sentences far from each other are in one passage, in the order of the source."""
    filler = " ".join(f"Note {number} concerns the garden only." for number in range(40))
    text = f"Employees may work remotely. {filler} Their manager must agree to remote days."
    checker = CitationChecker([SOURCE.model_copy(update={"text": text})], "en")
    checker.check("Staff do remote work if a manager has consented to these days [1].")
    (claim,) = checker.undecided.list_first(10)
    (passage,) = claim.passages
    assert "Their manager must agree to remote days." in passage.text
    assert len(passage.text) <= 700


SHELTER = SOURCE.model_copy(
    update={
        "text": "Guests may stay in the shelter for three nights in a row, and after that they pay four pounds a night. "
        "The kitchen of the shelter is open from 7 to 10 every morning."
    }
)
REWORDED = "The kitchen of the shelter serves people from 7 to 9 every morning [1]."  # another number, and words the source lacks
COPIED = "The kitchen of the shelter is open from 7 to 9 every morning [1]."


@for_each(
    "answer, log_odds, verdict, finding",
    [
        (COPIED, SURE, "unsupported", "contradicts"),
        (REWORDED, -SURE, "unsupported", "contradicts"),
        (REWORDED, SURE, "partial", None),
    ],
)
def test_the_model_may_object_to_a_contradiction_in_other_words(
    answer: str, log_odds: float, verdict: str, finding: str | None
) -> None:
    """It cannot object in a sentence that copies its source but for one number, and it never makes it supported."""
    (by_words,) = CitationChecker([SHELTER], "en").check(answer).citations
    assert by_words.finding == "contradicts"
    (found,) = checked_by_model(answer, log_odds, SHELTER)
    assert (found.verdict, found.finding) == (verdict, finding)
    assert (found.difference is None) == (finding is None)


@for_each("log_odds", [-SURE, SURE])
def test_a_sentence_that_shares_few_words_is_not_contradicted_and_not_supported(log_odds: float) -> None:
    """One who leaves after two nights is within the three nights of the source, which has another number of nights."""
    answer = "A visitor who leaves after two nights owes nothing [1]."
    (by_words,) = CitationChecker([SHELTER], "en").check(answer).citations
    (found,) = checked_by_model(answer, log_odds, SHELTER)
    for checked in (by_words, found):
        assert checked.verdict in ("partial", "unsupported")
        assert checked.finding != "contradicts"


def test_the_model_reads_a_claim_whose_figures_and_names_are_all_missing() -> None:
    """The score is 0.0 after rounding, but claim and source have words in common."""
    text = "The ferry to the island leaves from the northern pier every morning, and the crossing takes two hours."
    checker = CitationChecker([SOURCE.model_copy(update={"text": text})], "en")
    checker.check(
        "Kasimir Holt said that the ferry carried 412 people, 37 cars and 9 lorries past Lindholm on 3 May 2021 [1]."
    )
    (claim,) = checker.undecided.list_first(10)
    assert claim.judgement.score == 0
    assert not claim.judgement.shares_no_word
