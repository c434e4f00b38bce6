"""Make queries for a further round: a name from one of the best sources, plus the words of the question that it lacks."""

from dataclasses import dataclass

from modules.llm_platform.domain.evidence.sentence_matches import HAS_TERM, MatchedSource, Name, SentenceMatches
from modules.llm_platform.domain.text.tokens import normalize
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

MAX_SOURCES = 6  # queries use the names of this many sources, best first
RANK_STEP = 0.02  # the value of a source is divided by 1 + RANK_STEP * rank
POSITION_STEP = 0.15  # the value of a name is divided by 1 + POSITION_STEP * sentences before it
MAX_POSITION = 8
BASE_VALUE = 0.3  # of a name in a sentence without a word of the question
TITLE_SHARE = 0.6  # share of the source's value for its title, as a name
MAX_ROUND_QUERY_CHARS = 200
MAX_FACT_WORDS = 16  # words of a disputed sentence in a query


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query, the name that it contains, and the value of the name."""

    text: str
    name: str
    value: float

    @property
    def key(self) -> str:
        """The words that make two queries equal."""
        return normalize(self.text)


def list_further_queries(matches: SentenceMatches) -> list[NamedQuery]:
    """Return a query for each name, best first: the name and the words of the question that its source lacks."""
    best: dict[str, tuple[float, str, str]] = {}  # keyed by folded name: value, name, words that its source lacks
    valued = sorted(
        ((source.value / (1 + RANK_STEP * source.rank), source) for source in matches.sources),
        key=lambda pair: -pair[0],
    )
    for value, source in valued[:MAX_SOURCES]:
        terms = enumerate(matches.question.terms)
        left_open = " ".join(term.word for number, term in terms if source.credits.get(number, 0.0) < HAS_TERM)
        for name, share in _list_names(source, left_open, matches):
            if name.folded not in best or best[name.folded][0] < value * share:
                best[name.folded] = (value * share, name.text, left_open)
    return [
        NamedQuery(one_line(f"{name} {left_open}")[:MAX_ROUND_QUERY_CHARS].rstrip(), name, value)
        for value, name, left_open in sorted(best.values(), key=lambda found: -found[0])
    ]


def _list_names(source: MatchedSource, left_open: str, matches: SentenceMatches) -> list[tuple[Name, float]]:
    """Return the names of a source, each with its share of the source's value.

    If the source has all words of the question, except perhaps a figure, the first word of a sentence or a row is not a name:
    `Yes` and `Below` only have a capital because they come first.
    """
    title = source.title
    found = [(title, TITLE_SHARE)] if matches.is_new(title) else []
    has_words = any(map(str.isalpha, left_open))
    for sentence in source.sentences:
        share = (BASE_VALUE + sentence.value) / (1 + POSITION_STEP * min(sentence.position, MAX_POSITION))
        found += [
            (name, share) for name in matches.list_new_names(sentence) if has_words or not sentence.begins_with(name)
        ]
    return found


def make_query_without_figures(sentence: str) -> NamedQuery:
    """Return the query for a fact on which two sources disagree: the sentence without its figures."""
    words = [word for word in one_line(sentence).split() if not any(char.isdigit() for char in word)]
    return NamedQuery(" ".join(words[:MAX_FACT_WORDS])[:MAX_ROUND_QUERY_CHARS].rstrip(" .,;:"), "", 1.0)
