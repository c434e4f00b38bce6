"""Two small models find an answer in other words, and deny words that answer nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.cases import for_each

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.extractive import reranking
from modules.llm_platform.domain.extractive.candidates import Candidate
from modules.llm_platform.domain.extractive.question import Question, read_question
from modules.llm_platform.domain.extractive.question_parts import asks_several_things
from modules.llm_platform.domain.extractive.reranking import (
    AnswerWeights,
    ComparedSentences,
    ScoredSentence,
    choose_by_models,
    choose_scoring_model,
    group_by_language,
    list_quotable,
    make_model_input,
    mark_agreed,
    measure_distinction,
    select_nearest,
)
from modules.llm_platform.domain.extractive.selection import Selection, add_antecedent, choose_by_words

HANDBOOK = """# Leave

Full-time staff have 26 days of paid leave a year, plus public holidays. Carry it over until 31 March at the latest.

# Travel

Trains are booked in second class. The office books the hotel.

| City | Hotel | Price |
|---|---|---|
| Graz | Alpina | 90 |
| Wien | Dom | 120 |
"""
WEIGHTS = AnswerWeights(
    bias=0.0,
    features={"log_odds": 1.0, "closeness": 1.0},
    answers_from=1.0,
    stands_out_from=None,
    words_from=-1.0,
    words_within=1.0,
    may_answer_from=0.5,
)
ACROSS = replace(WEIGHTS, answers_from=2.0)
LEAVE, TRAINS = "Full-time staff have 26 days", "Trains are booked"


@pytest.fixture(autouse=True)
def weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reranking, "load_answer_weights", lambda kind: ACROSS if kind == "across" else WEIGHTS)


def select(question: str, text: str = HANDBOOK) -> Selection:
    source = Source(index=1, title="Handbook", url="https://a.example/", text=text)
    return choose_by_words(read_question(question, "en"), [source])


def chosen_by(question: str, log_odds: Callable[[str], float]) -> list[str]:
    """Return the sentences that are chosen if the model gives each sentence these log-odds."""
    selection = select(question)
    readings = [ScoredSentence(one, 0.0, 0.0, log_odds(one.sentence.text)) for one in list_quotable(selection)]
    chosen = choose_by_models(selection, readings)
    return [candidate.sentence.text for candidate in chosen.selection.chosen]


@for_each(("is_whole", "named"), [(True, True), (False, False)])
def test_the_models_read_the_name_of_a_document(is_whole: bool, named: bool) -> None:
    """A question names the sender of a letter, and its file may be called `minutes`. A passage of a page has no beginning."""
    text = "FRIENDS OF SKELBROOK SCHOOL\nRegistered charity 5550142\n\n1. Money\n\nThe balance was £4,318 in October."
    source = Source(index=1, title="minutes", url="https://a.example/", text=text, is_whole=is_whole)
    selection = choose_by_words(read_question("What was the balance?", "en"), [source])
    (balance,) = (one for one in selection.candidates if "balance" in one.sentence.text)
    assert ("FRIENDS OF SKELBROOK SCHOOL" in make_model_input(balance, selection.question)) is named


def test_an_answer_in_other_words_is_quoted() -> None:
    question = "How much holiday am I entitled to?"
    assert select(question).chosen == []
    assert chosen_by(question, lambda text: 3.0 if LEAVE in text else -3.0) == [
        "Full-time staff have 26 days of paid leave a year, plus public holidays."
    ]


def test_words_that_answer_nothing_are_denied() -> None:
    question = "How many days of paid leave do full-time staff have?"
    assert LEAVE in select(question).chosen[0].sentence.text
    assert chosen_by(question, lambda text: -3.0) == []


def test_what_the_words_chose_stays_if_it_answers_as_well() -> None:
    """Words know lists, code and definitions, which are shown with their sentence."""
    question = "How many days of paid leave do full-time staff have?"
    kept = [candidate.sentence.text for candidate in select(question).chosen]
    assert chosen_by(question, lambda text: 2.0 if TRAINS in text else 1.5) == kept
    assert chosen_by(question, lambda text: 4.0 if TRAINS in text else 1.5) == ["Trains are booked in second class."]


def test_the_words_decide_about_the_parts_of_a_question() -> None:
    """The model reads the whole question, so a sentence that answers one part is judged by its words."""
    question = "How many days of paid leave do full-time staff have, and how are trains booked?"
    kept = [candidate.sentence.text for candidate in select(question).chosen]
    assert len(kept) == 2
    assert chosen_by(question, lambda text: 9.0 if "hotel" in text else 1.5) == kept


@for_each(
    ("question", "language"),
    [
        ("How many days of paid leave do staff have, how are trains booked, and what does the office book?", "en"),
        ("Wie lange gilt der Urlaub der staff, und wie bucht man trains?", "de"),
        ("Comment utiliser le paid leave et quand réserver les trains ?", "fr"),
    ],
)
def test_several_questions_in_one_are_known_in_each_language(question: str, language: str) -> None:
    assert asks_several_things(read_question(question, language))


def test_the_models_decide_if_only_one_part_is_a_question() -> None:
    """What stands before the comma describes the circumstances, and the words of the circumstances answer nothing."""
    question = "I am travelling by train next week, how is my hotel booked?"
    assert len(read_question(question, "en").parts) == 2
    assert chosen_by(question, lambda text: 3.0 if "hotel" in text else -1.5) == ["The office books the hotel."]


def test_between_the_limits_the_words_decide() -> None:
    question = "How many days of paid leave do full-time staff have?"
    assert chosen_by(question, lambda text: 0.0)
    assert chosen_by("How much holiday am I entitled to?", lambda text: 0.0) == []


def test_the_words_do_not_decide_against_a_much_better_sentence() -> None:
    """Also where that one does not answer for certain: what shares words with the question is no answer then."""
    question = "How many days of paid leave do full-time staff have?"
    assert chosen_by(question, lambda text: 0.9 if TRAINS in text else -0.2) == []


@for_each("log_odds, may_answer", [(0.9, True), (-0.3, True), (-0.5, False), (-9.0, False)])
def test_a_sentence_that_may_answer_is_named_first(log_odds: float, may_answer: bool) -> None:
    """The sentence is not a certain answer, but the text must not deny an answer."""
    selection = select("How much holiday am I entitled to?")
    readings = [
        ScoredSentence(one, 0.0, 0.0, log_odds if LEAVE in one.sentence.text else -9.0)
        for one in list_quotable(selection)
    ]
    chosen = choose_by_models(selection, readings)
    assert chosen.selection.chosen == []
    assert chosen.may_answer is may_answer
    assert may_answer is False or LEAVE in chosen.ordered[0].sentence.text


@for_each(
    "others, chosen",
    [
        (-3.0, ["Full-time staff have 26 days of paid leave a year, plus public holidays."]),
        (0.4, []),
    ],
)
def test_a_less_certain_answer_is_quoted_if_no_other_sentence_is_nearly_as_likely(
    others: float, chosen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a short text this says too little."""
    limits = replace(WEIGHTS, stands_out_from=0.0)
    monkeypatch.setattr(reranking, "load_answer_weights", lambda kind: limits)
    question = "How much holiday am I entitled to?"
    assert chosen_by(question, lambda text: 0.9 if LEAVE in text else others) == []
    monkeypatch.setattr(reranking, "MIN_SENTENCES", 4)
    assert chosen_by(question, lambda text: 0.9 if LEAVE in text else others) == chosen
    assert chosen_by(question, lambda text: 0.3 if LEAVE in text else -9.0) == []


def test_a_repetition_does_not_compete_with_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second document that says the same makes the answer no less certain."""
    selection = select("How much holiday am I entitled to?", HANDBOOK + "\n\n# Again\n\n" + HANDBOOK)
    readings = [
        ScoredSentence(one, 0.0, 0.0, 0.9 if LEAVE in one.sentence.text else -3.0) for one in list_quotable(selection)
    ]
    first = max(readings, key=lambda one: one.margin)
    assert sum(LEAVE in one.candidate.sentence.text for one in readings) == 2
    assert measure_distinction(first, readings) == pytest.approx(
        measure_distinction(first, [one for one in readings if one is first or one.margin < 0])
    )


@for_each("odds_of_english, may_answer", [(-0.5, False), (0.9, True)])
def test_the_closest_sentences_are_in_the_language_of_the_question(odds_of_english: float, may_answer: bool) -> None:
    """A sentence in another language is shown only if it answers, or if there are no others."""
    french = "Le personnel de la mairie travaille trente-cinq heures par semaine et ses congés sont fixés avec le chef."
    pages = [
        Source(
            index=1, title="Leave", url="https://a.example/", text="Full-time staff have 26 days of paid leave a year."
        ),
        Source(index=2, title="Congés", url="https://b.example/", text=french),
    ]
    selection = choose_by_words(read_question("How much holiday am I entitled to?", "en"), pages)
    scored = [
        ScoredSentence(one, 0.0, 0.0, odds_of_english if one.source.index == 1 else 0.95)
        for one in list_quotable(selection)
    ]
    reranked = choose_by_models(selection, scored)
    assert [one.found_in.language for one in reranked.ordered] == ["en"]
    assert reranked.may_answer is may_answer
    only_french = choose_by_models(selection, [one for one in scored if one.candidate.source.index == 2])
    assert [one.found_in.language for one in only_french.ordered] == ["fr"]


@for_each(
    "own, foreign, quoted, shown",
    [
        (1.5, 9.0, "en", ["fr", "en"]),  # the question's own language comes first if it answers
        (0.9, 9.0, "fr", ["fr", "en"]),
        (0.9, 1.7, "", ["fr", "en"]),
        (0.9, 0.7, "", ["en"]),
        (0.4, 0.9, "", ["fr", "en"]),
        (0.4, 0.3, "", ["en"]),
    ],
)
def test_a_foreign_sentence_answers_if_no_own_one_does(
    own: float, foreign: float, quoted: str, shown: list[str]
) -> None:
    """A foreign sentence that may answer is shown among the closest ones, if no own one is likelier."""
    selection = select_from_two_languages(
        "How much holiday am I entitled to?",
        "Full-time staff have 26 days of paid leave.",
        "Le personnel de la mairie a trente jours de congé par an, fixés avec le chef.",
    )
    reranked = choose_by_models(selection, score_two_languages(selection, own, foreign))
    assert [one.found_in.language for one in reranked.selection.chosen] == [quoted][: bool(quoted)]
    assert [one.found_in.language for one in reranked.ordered] == shown


def select_from_two_languages(question: str, english: str, french: str) -> Selection:
    texts = {"https://a.example/": english, "https://b.example/": french}
    sources = [Source(index=at, title="Notes", url=url, text=text) for at, (url, text) in enumerate(texts.items(), 1)]
    return choose_by_words(read_question(question, "en"), sources)


def score_two_languages(selection: Selection, own: float, foreign: float) -> list[ScoredSentence]:
    """Return the sentences with these log-odds of the English ones, and of the French ones."""
    return [
        ScoredSentence(one, 0.0, 0.0, own, "english")
        if one.source.index == 1
        else ScoredSentence(one, 0.0, 0.0, foreign, "across")
        for one in list_quotable(selection)
    ]


def test_a_foreign_sentence_with_the_option_answers_if_the_own_one_lacks_it() -> None:
    selection = select_from_two_languages(
        "What does --onto do in a rebase?",
        "A rebase moves commits onto another base.",
        "L'option --onto indique la nouvelle base sur laquelle les commits sont rejoués.",
    )
    selection = replace(selection, chosen=[])
    scored = score_two_languages(selection, 4.0, 4.0)
    assert [one.source.index for one in choose_by_models(selection, scored).selection.chosen] == [2]
    without = choose_by_models(selection, [one for one in scored if one.candidate.source.index == 1])
    assert without.selection.chosen == []
    assert not without.may_answer


def test_the_choice_of_the_words_stays_in_the_languages_that_answer() -> None:
    """The models reject the English sentence, so it is not quoted beside the French one."""
    selection = select_from_two_languages(
        "How many members does the Maribor club have?",
        "The Maribor club has a boat in Maribor.",
        "Le club Maribor a trente membres à Maribor.",
    )
    selection = replace(selection, chosen=list_quotable(selection))
    assert [one.found_in.language for one in selection.chosen] == ["en", "fr"]
    scored = score_two_languages(selection, -9.0, 3.0)
    assert [one.source.index for one in choose_by_models(selection, scored).selection.chosen] == [2]


@for_each(
    "question, sentence, kind",
    [
        ("en", "en", "english"),
        ("de", "de", "languages"),
        ("en", "de", "across"),
        ("de", "en", "across"),
        ("de", "fr", "across"),
        ("sv", "sv", "near"),
        ("sv", "en", "near"),
    ],
)
def test_the_languages_of_question_and_sentence_choose_the_model(question: str, sentence: str, kind: str) -> None:
    """If a language is unknown, or if the support model cannot read it, only the encoder decides."""
    assert choose_scoring_model(question, sentence) == kind


def test_the_limits_of_its_kind_say_how_likely_a_sentence_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closeness alone gives sentences in another language higher odds, also where they answer nothing."""
    limits = {"english": replace(WEIGHTS, may_answer_from=-3.0), "near": replace(WEIGHTS, may_answer_from=-1.0)}
    monkeypatch.setattr(reranking, "load_answer_weights", limits.__getitem__)
    selection = select("How much holiday am I entitled to?")
    english, other = list_quotable(selection)[:2]
    readings = [ScoredSentence(other, -1.5, 0.0), ScoredSentence(english, 0.0, 0.0, -2.0, "english")]
    chosen = choose_by_models(selection, readings)
    assert chosen.ordered == [english, other]
    assert chosen.may_answer


def test_a_further_quote_of_another_kind_is_compared_by_its_own_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal log-odds of two kinds are not equally likely answers."""
    limits = {"english": replace(WEIGHTS, may_answer_from=-3.0), "near": replace(WEIGHTS, may_answer_from=-1.0)}
    monkeypatch.setattr(reranking, "load_answer_weights", limits.__getitem__)
    selection = select("How much holiday am I entitled to?")
    (leave,) = (one for one in list_quotable(selection) if LEAVE in one.sentence.text)
    (trains,) = (one for one in list_quotable(selection) if TRAINS in one.sentence.text)
    foreign = [ScoredSentence(leave, 0.0, 0.0, 2.0, "english"), ScoredSentence(trains, 0.0, 0.0, 2.0, "near")]
    assert choose_by_models(selection, foreign).selection.chosen == [leave]
    same = [replace(one, scored_by="english") for one in foreign]
    assert choose_by_models(selection, same).selection.chosen == [leave, trains]


def test_only_as_many_sentences_are_tested_as_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long page has thousands of sentences, and the event loop waits for these tests."""
    selection, tested = select("What does the hotel in Graz cost?"), list[Candidate]()
    everything = list_quotable(selection)
    assert len(everything) > 2

    def add(candidate: Candidate) -> list[Candidate]:
        tested.append(candidate)
        return add_antecedent(candidate)

    monkeypatch.setattr(reranking, "add_antecedent", add)
    monkeypatch.setattr(reranking, "MAX_QUOTABLE", 2)
    assert list_quotable(selection) == everything[:2]
    assert tested == everything[:2]


def test_a_table_row_is_read_with_the_names_of_its_columns() -> None:
    """Each sentence is also read with its surrounding text."""
    selection = select("What does the hotel in Graz cost?")
    texts = [make_model_input(candidate, selection.question) for candidate in list_quotable(selection)]
    assert "City: Graz; Hotel: Alpina; Price: 90 (Handbook · Travel)" in texts
    assert any(text.startswith("The office books the hotel. (Handbook · Travel · Trains are booked") for text in texts)


def test_the_nearest_sentences_are_read_and_what_the_words_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reranking, "MAX_READ", 1)
    selection = select("How many days of paid leave do full-time staff have?")
    near = list_quotable(selection)
    (chosen,) = selection.chosen
    assert near[-1] is not chosen
    closeness = [0.9 if candidate is near[-1] else 0.1 for candidate in near]
    found = select_nearest(selection, ComparedSentences(near), closeness)
    assert [one.candidate for one in found] == [near[-1], chosen]
    assert found[0].z_score > 0 > found[1].z_score


GERMAN = """# Urlaub

Vollzeitkräfte haben dreißig Tage Urlaub im Jahr. Der Urlaub wird bei der Leitung beantragt. Resturlaub verfällt im März."""


def mixed(question: str) -> tuple[Question, list[Candidate]]:
    """Return the question, and the sentences of an English and a German source."""
    texts = {"Handbook": HANDBOOK, "Handbuch": GERMAN}
    sources = [
        Source(index=number, title=title, url=f"https://page{number}.test/", text=text)
        for number, (title, text) in enumerate(texts.items(), 1)
    ]
    selection = choose_by_words(read_question(question, "en"), sources)
    return selection.question, list_quotable(selection)


def test_english_sentences_are_compared_among_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cosines of two models cannot be compared. Few other sentences are measured together with English ones."""
    monkeypatch.setattr(reranking, "MAX_NEAR_ENGLISH", 2)
    monkeypatch.setattr(reranking, "MIN_MEASURED", 5)
    question, near = mixed("How many days of leave do full-time staff have?")
    english, others = group_by_language(question, near)
    titles = [[one.source.title for one in group.sentences] for group in (english, others)]
    assert titles == [["Handbook"] * 2, ["Handbuch"] * 3]
    assert (english.is_english, others.is_english) == (True, False)
    assert [one.source.title for one in others.others] == ["Handbook"] * 2
    assert others.all_sentences == [*others.sentences, *others.others]


def test_static_vectors_choose_among_the_last_english_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best sentences by words are always measured. If all fit, there is nothing to choose."""
    monkeypatch.setattr(reranking, "MAX_NEAR_ENGLISH", 2)
    monkeypatch.setattr(reranking, "BEST_BY_WORDS", 1)
    question, near = mixed("How many days of leave do full-time staff have?")
    english, others = group_by_language(question, near)
    assert english.replaceable == [*english.sentences[1:], *english.further]
    last = len(english.replaceable) - 1
    assert list(english.choose([last]).sentences) == [english.sentences[0], english.replaceable[last]]
    assert (others.replaceable, english.choose([last]).replaceable) == ([], [])


def test_sentences_that_only_make_a_mean_do_not_answer() -> None:
    selection = select("How many days of paid leave do full-time staff have?")
    near = list_quotable(selection)
    group = ComparedSentences(near[:2], near[2:])
    found = select_nearest(selection, group, [0.5, 0.6, *[0.1] * (len(near) - 2)])
    assert [one.candidate for one in found] == [near[1], near[0]]
    assert found[0].z_score > found[1].z_score > 0


def test_a_sentence_that_was_not_read_is_weighed_by_closeness_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[str] = []
    monkeypatch.setattr(reranking, "load_answer_weights", lambda kind: kinds.append(kind) or WEIGHTS)
    (near, *_) = list_quotable(select("How much holiday do I have?"))
    assert ScoredSentence(near, 0.5, 1.0).answer_log_odds == 0.5
    assert ScoredSentence(near, 0.5, 1.0, 2.0, "english").answer_log_odds == 2.5
    assert kinds == ["near", "english"]


def agreed_on(question: str, text: str, closeness: Callable[[str], float], log_odds: float) -> list[str]:
    """Return the sentences that are chosen by this closeness, if the words chose none.

    The model gives all sentences the same log-odds, and their closeness counts, too.
    """
    selection = replace(select(question, text), chosen=[])
    near = list_quotable(selection)
    read = select_nearest(selection, ComparedSentences(near), [closeness(one.sentence.text) for one in near])
    readings = [replace(one, log_odds=log_odds) for one in mark_agreed(selection, near[0], read)]
    return [one.sentence.text for one in choose_by_models(selection, readings).selection.chosen]


OFFICER = "The welfare officer is Ruth Calloway, who can be reached by telephone."
OTHERS = "\n\n".join(f"Lane {number} belongs to group {number} in the evening." for number in range(80))
ASKED = "Who is the welfare officer of the swimming club?"


@for_each(
    "question, others, nearness, log_odds, is_chosen",
    [
        (ASKED, OTHERS, 0.3, 0.4, True),
        (ASKED, OTHERS, 0.3, 0.0, False),  # the model thinks that nothing may answer
        (ASKED, OTHERS, -0.3, 0.6, False),  # other sentences are nearer
        (ASKED, OTHERS[:400], 0.3, 0.4, False),  # among few sentences, the best one by words is easily a near one
        ("Which officer?", OTHERS, 0.3, 0.4, False),  # one word is a topic
        ("Who is the welfare manager of the rowing team in Leeds?", OTHERS, 0.3, 0.4, False),  # about something else
    ],
)
def test_words_and_both_models_may_agree_on_an_uncertain_sentence(
    question: str, others: str, nearness: float, log_odds: float, is_chosen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many sentences, the best one by words is near, too, and the best one for the model. Each alone is not enough."""
    monkeypatch.setattr(reranking, "MIN_SENTENCES", 30)
    chosen = agreed_on(question, f"{OFFICER}\n\n{others}", lambda text: nearness * (text == OFFICER), log_odds)
    assert chosen == ([OFFICER] if is_chosen else [])


def test_words_choose_among_what_the_search_found_and_the_models_among_all() -> None:
    """In a whole document, a title gives each sentence words of the question, so a random one may have the most."""
    question = "How many days of paid leave do full-time staff have?"
    found, rest = "The office books the hotel.", "Full-time staff have 26 days of paid leave a year."
    source = Source(index=1, title="Handbook", url="https://a.example/", text=f"{found}\n\n{rest}")
    asked = read_question(question, "en")
    whole = choose_by_words(asked, [source])
    assert [one.sentence.text for one in whole.chosen] == [rest]
    in_part = choose_by_words(asked, [source.model_copy(update={"excerpt": found})])
    assert in_part.chosen == []
    assert rest in [one.sentence.text for one in list_quotable(in_part)]
