"""Make queries for a further round: a name found in the best sources, plus the words of the question that they lack."""

from dataclasses import dataclass

from modules.llm_platform.domain.evidence.statements import HAS_TERM, Name, SourceStatements, Statements
from modules.llm_platform.domain.text.tokens import normalize
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

SOURCES = 6  # only names of the best sources are searched for
RANK_STEP = 0.02  # the value of a source is divided by 1 + RANK_STEP * rank
POSITION_STEP = 0.15  # the value of a name is divided by 1 + POSITION_STEP * sentences before it
MAX_POSITION = 8
BASE = 0.3  # value of a name in a sentence without a word of the question
TITLE_SHARE = 0.6  # value of the title of a source, as a name
MAX_ROUND_QUERY_CHARS = 200
MAX_FACT_WORDS = 16  # words of a sentence that a query repeats


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


def list_further_queries(statements: Statements) -> list[NamedQuery]:
    """Return a query for each name, best first: the name and the words of the question that its source lacks."""
    best: dict[str, tuple[float, str, str]] = {}  # keyed by folded name: value, name, words that its source lacks
    valued = sorted(
        ((source.value / (1 + RANK_STEP * source.rank), source) for source in statements.sources),
        key=lambda pair: -pair[0],
    )
    for value, source in valued[:SOURCES]:
        terms = enumerate(statements.question.terms)
        left_open = " ".join(term.word for number, term in terms if source.credits.get(number, 0.0) < HAS_TERM)
        for name, share in _list_names(source, left_open, statements):
            if name.folded not in best or best[name.folded][0] < value * share:
                best[name.folded] = (value * share, name.text, left_open)
    return [
        NamedQuery(one_line(f"{name} {left_open}")[:MAX_ROUND_QUERY_CHARS].rstrip(), name, value)
        for value, name, left_open in sorted(best.values(), key=lambda found: -found[0])
    ]


def _list_names(source: SourceStatements, left_open: str, statements: Statements) -> list[tuple[Name, float]]:
    """Return the names of a source, each with its share of the source's value.

    If the source lacks no word of the question, except perhaps a figure, the first word of a sentence or a row is not a name:
    `Yes` and `Below` have a capital only because they come first.
    """
    title = source.title
    found = [(title, TITLE_SHARE)] if statements.is_new(title) else []
    has_words = any(map(str.isalpha, left_open))
    for statement in source.statements:
        share = (BASE + statement.value) / (1 + POSITION_STEP * min(statement.position, MAX_POSITION))
        found += [
            (name, share)
            for name in statements.list_new_names(statement)
            if has_words or not statement.begins_with(name)
        ]
    return found


def make_query_without_figures(statement: str) -> NamedQuery:
    """Return the query for a fact on which two sources disagree: the sentence without its figures."""
    words = [word for word in one_line(statement).split() if not any(char.isdigit() for char in word)]
    return NamedQuery(" ".join(words[:MAX_FACT_WORDS])[:MAX_ROUND_QUERY_CHARS].rstrip(" .,;:"), "", 1.0)
