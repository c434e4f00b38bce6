"""The further queries of a question: a name that the best passages bring in, with the words that they leave open."""

from dataclasses import dataclass

from modules.llm_platform.domain.evidence.statements import HAS_TERM, Passage, Statements
from modules.llm_platform.domain.text.tokens import normalize
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

PASSAGES = 6  # best passages whose names are searched for
RANK_STEP = 0.02  # each rank of a passage divides its value further by this
POSITION_STEP = 0.15  # each sentence before a name divides its value further by this
MAX_POSITION = 8
BASE = 0.3  # value of a name in a sentence without a word of the question
TITLE_SHARE = 0.6  # value of the title of a passage, as a name
MAX_QUERY_CHARS = 200
MAX_FACT_WORDS = 16  # words of a sentence that a query repeats


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query, the name that it follows, and the value of that name."""

    text: str
    name: str
    value: float

    @property
    def key(self) -> str:
        """The words that make two queries equal."""
        return normalize(self.text)


def further_queries(statements: Statements) -> list[NamedQuery]:
    """Return the queries of all names, best first; each name once, with the words that the name's passage leaves open."""
    best: dict[str, NamedQuery] = {}
    valued = sorted(
        ((passage.value / (1 + RANK_STEP * passage.rank), passage) for passage in statements.passages),
        key=lambda pair: -pair[0],
    )
    for value, passage in valued[:PASSAGES]:
        for name, share in _names(passage, statements):
            key, known = normalize(name), value * share
            if key not in best or best[key].value < known:
                best[key] = NamedQuery(_query(name, passage, statements), name, known)
    return sorted(best.values(), key=lambda query: -query.value)


def _names(passage: Passage, statements: Statements) -> list[tuple[str, float]]:
    """Return the names of a passage, each with its share of the passage's value."""
    title = passage.source.title
    found = [(title, TITLE_SHARE)] if statements.is_new(title) else []
    for statement in passage.statements:
        share = (BASE + statement.value) / (1 + POSITION_STEP * min(statement.position, MAX_POSITION))
        found += [(name, share) for name in statements.names(statement)]
    return found


def _query(name: str, passage: Passage, statements: Statements) -> str:
    terms = statements.question.terms
    left_open = [term.word for number, term in enumerate(terms) if passage.met.get(number, 0.0) < HAS_TERM]
    return one_line(" ".join([name, *left_open]))[:MAX_QUERY_CHARS].rstrip()


def query_without_figures(statement: str) -> NamedQuery:
    """Return the query for a fact on which two sources disagree: the sentence without either figure."""
    words = [word for word in one_line(statement).split() if not any(char.isdigit() for char in word)]
    return NamedQuery(" ".join(words[:MAX_FACT_WORDS])[:MAX_QUERY_CHARS].rstrip(" .,;:"), "", 1.0)
