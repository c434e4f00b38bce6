"""Laws of the parser of citation forms: each sentence of a text cites the sources that its author named."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.support.cases import for_each
from tests.support.growth import is_linear

from modules.llm_platform.domain.citations.forms.citation_forms import TooManyCitationsError, read_citations
from modules.llm_platform.domain.citations.forms.cited_text import CitedSource
from modules.llm_platform.domain.citations.read.sentences import read_answer

FORMS = Path(__file__).parents[4] / "recordings" / "citation_forms"
MIN_BOUND = 0.98  # share of the citations that must be bound to the right source
LONG = 100_000  # characters, the longest text of a request
TIMES = 10  # how much longer it is than the short one


class FormCase(NamedTuple):
    """A text in one form, and the parts of addresses that its sentences cite."""

    name: str
    text: str
    expected: list[tuple[str, list[str]]]


def form_cases(path: Path) -> list[FormCase]:
    """Read a file of `=== name`, text, `---`, and lines `part of a sentence => parts of addresses`."""
    cases = []
    for block in path.read_text(encoding="utf-8").split("=== ")[1:]:
        name, _, rest = block.partition("\n")
        text, _, expected = rest.partition("\n---")
        rows = [line.split("=>") for line in expected.strip().splitlines() if "=>" in line]
        cases.append(FormCase(name, text, [(part.strip(), urls.split()) for part, urls in rows]))
    return cases


def bound(text: str, given: tuple[CitedSource, ...] = ()) -> list[tuple[str, set[str]]]:
    """Return each sentence of a text, as sent, with the addresses that it cites."""
    cited = read_citations(text, given)
    urls = {source.index: source.url or source.text for source in cited.sources}
    answer = read_answer(cited.markdown, "en")
    numbers = [set(sentence.cited) for sentence in answer.sentences]
    for behind in answer.trailing:
        for position in behind.sentences if behind.is_on_own_line else ():
            numbers[position] |= set(behind.numbers)
    return [
        (text[slice(*cited.map_span(sentence.start, sentence.end))], {urls[number] for number in found})
        for sentence, found in zip(answer.sentences, numbers, strict=True)
    ]


def wrongly_bound(case: FormCase) -> tuple[int, int, list[str]]:
    """Return how many citations are bound right, how many there are, and the sentences with a wrong one."""
    right = count = 0
    wrong = []
    sentences = bound(case.text)
    for part, expected in case.expected:
        count += max(1, len(expected))
        found = [urls for sentence, urls in sentences if part in sentence]
        hits = [name for name in expected if len(found) == 1 and any(name in url for url in found[0])]
        extra = len(found[0]) - len(hits) if len(found) == 1 else 1
        right += max(0, (len(hits) if expected else 1) - extra)
        if extra or len(hits) < len(expected):
            wrong.append(f"{case.name}: {part}: {found}")
    return right, count, wrong


@for_each("file", ["forms.txt", "held_out.txt", "unseen.txt"])
def test_sentences_are_bound_to_the_sources_that_their_author_cites(file: str) -> None:
    """At least 98 of 100 citations are bound to the right source, in every form."""
    results = [wrongly_bound(case) for case in form_cases(FORMS / file)]
    right, count = sum(result[0] for result in results), sum(result[1] for result in results)
    assert right / count >= MIN_BOUND, "\n".join(line for result in results for line in result[2])


def test_a_reference_to_a_passage_cites_no_number() -> None:
    """The numbers of `【4:1†file】` count messages and passages of OpenAI's API, and name no sources of the text."""
    given = tuple(CitedSource(number, text="Words") for number in range(1, 6))
    cited = read_citations("It is so【4:1†notes.pdf】. It is not【2†x】.", given)
    assert cited.markdown == "It is so. It is not[2]."


def test_spans_point_into_the_text_as_sent() -> None:
    """A span counts code points of the text as sent, whatever was rewritten before it."""
    text = "🙂 Ä is a letter ([Wiki](https://a.example/ä)). 🙂 The second one is B【2†x】.\n\nSources:\n[2] https://b.example\n"
    assert [sentence for sentence, _ in bound(text)] == ["🙂 Ä is a letter", "🙂 The second one is B"]


def test_a_link_at_the_end_of_a_sentence_is_a_part_of_it() -> None:
    """A sentence that consists of a link includes the whole link."""
    text = "It covers [80 percent](https://a.example). [Later studies](https://b.example) differ."
    assert [sentence for sentence, _ in bound(text)] == [
        "It covers [80 percent](https://a.example)",
        "[Later studies](https://b.example) differ.",
    ]


def test_an_entry_of_a_list_can_name_a_given_source() -> None:
    """`[2] notes.md` or a link to the file means that number 2 is the given file."""
    given = (CitedSource(1, title="other.md", text="Other"), CitedSource(5, title="notes.md", text="Notes"))
    for entry in ("notes.md", "[notes.md](notes.md)"):
        cited = read_citations(f"It is so [2].\n\nSources\n[2] {entry}\n", given)
        assert {source.index: source.text for source in cited.sources} == {1: "Other", 2: "Notes", 5: "Notes"}


@for_each("entry", ["notes.md", "doc:notes.md", "Annual notes 2025.PDF"])
def test_lines_that_name_files_need_no_heading(entry: str) -> None:
    given = (CitedSource(800, title=entry.removeprefix("doc:"), text="Notes", is_numbered=False),)
    cited = read_citations(f"It is so [1].\n\n[1] {entry}\n", given)
    assert [(source.index, source.text) for source in cited.sources] == [(1, "Notes")]
    assert len(read_answer(cited.markdown, "en").sentences) == 1


def test_a_sentence_that_ends_with_a_file_is_no_entry() -> None:
    text = "It is so [1].\n\n[1] As all of us can read it in the old file notes.md\n"
    assert len(read_answer(read_citations(text).markdown, "en").sentences) == 2


def test_a_file_that_an_entry_names_is_one_source() -> None:
    """The file has one number. Counted under its own number too, it would be two read sources."""
    given = (CitedSource(800, title="notes.pdf", text="Notes", pages=((0, 3),), is_numbered=False),)
    cited = read_citations("It is so [2]. The [file](notes.pdf) says so.\n\nSources\n[2] notes.pdf\n", given)
    assert [(source.index, source.text, source.pages) for source in cited.sources] == [(2, "Notes", ((0, 3),))]
    assert [source.index for source in read_citations("The [file](notes.pdf) says so.", given).sources] == [800]
    assert read_citations("It is so ([file](doc:notes.pdf)).", given).markdown == "It is so [800]."


def test_given_sources_count_before_those_of_the_text() -> None:
    """A given source keeps its number, and its address is not added again."""
    given = (CitedSource(1, text="Beside"), CitedSource(2, url="https://two.example/"))
    text = "First [1]. Second ([Two](https://www.two.example)). Third.[3]\n\n[1] https://other.example\n[3] https://three.example"
    assert bound(text, given) == [
        ("First", {"Beside"}),
        ("Second", {"https://two.example/"}),
        ("Third.", {"https://three.example"}),
    ]


def test_a_number_without_an_entry_is_a_source_without_an_address() -> None:
    """A marker that no list explains is kept: its sentence claims a source that the text does not name."""
    cited = read_citations("The moon is made of rock [7].")
    assert [(source.index, source.url, source.is_listed) for source in cited.sources] == [(7, "", False)]


def test_code_cites_nothing() -> None:
    """Brackets and addresses in code are no citations."""
    cited = read_citations("Call `a[1]`.\n\n```\nb[2] https://a.example\n```\n\n    c[3]\n")
    assert cited.sources == ()


def test_addresses_that_no_browser_opens_are_no_sources() -> None:
    """Only http and https are addresses of sources."""
    cited = read_citations(
        "A [file](file:///etc/passwd), [js](javascript:alert(1)), [doc](doc:secret.txt), ftp://a.example/b."
    )
    assert cited.sources == ()


BIBLIOGRAPHY = "\n\n## References\n" + "\n".join(
    f"Smith{at}, J. (2021). Title. https://a.example/{at}" for at in range(200)
)


@for_each(
    "piece, behind",
    [
        *(
            (piece, "")
            for piece in [
                "[",
                "]",
                "[]",
                "([a](b)",
                "[a](https://a.example/b) ",
                "word ",
                "a",
                "1",
                "¹,",
                '<ref name="',
                "<ref>",
                "`a",
                '(cite index="1">',
                "([a](b), ",
                "[^a]: b\n",
                "[1]: https://a.example\n",
                "Sources\n",
                "www.",
                "http://",
                "\\[",
                "https://a.example ",
                "[[1]](a",
                "【1†",
                "[a][",
                "(aaaa 2021",
                "(see ",
                "| a [1] | b [2] |\n",
                "\n",
                "> ",
                "A. ",
                "- https://a.example 2021\n",
                "[aa ",
                "[a](" + "x" * 300,
            ]
        ),
        ("(Smith7, 2021) ", BIBLIOGRAPHY),
        ("Smith7 (2021) ", BIBLIOGRAPHY),
        ("(Jo, 2021) ", BIBLIOGRAPHY),
    ],
)
def test_the_time_grows_with_the_length_alone(piece: str, behind: str) -> None:
    """A text of the greatest length takes about ten times as long as a tenth of it, whatever signs it repeats."""
    count = LONG // len(piece)
    short, long = piece * (count // TIMES) + behind, piece * count + behind
    assert is_linear(lambda: read(short), lambda: read(long), TIMES)


def read(text: str) -> None:
    """Read the citations, up to the number that a text may have."""
    with suppress(TooManyCitationsError):
        read_citations(text)


@for_each(
    ("text", "cited"),
    [
        ("The curve is f(1).", set()),
        ("See Article 6(1).", set()),
        ("It weighs 142 kg (1).", {"https://a.example/"}),
        ("It weighs 142 kg <cite>1</cite>.", {"https://a.example/"}),
        ("It weighs 142 kg (2).", set()),
    ],
)
def test_a_number_in_parentheses_cites_behind_white_space(text: str, cited: set[str]) -> None:
    """A given source whose number is not known to the author is not cited by it."""
    given = (
        CitedSource(1, "https://a.example/", text="It weighs 142 kg."),
        CitedSource(2, "https://b.example/", text="It weighs 142 kg.", is_numbered=False),
    )
    assert bound(text, given)[0][1] == cited


@for_each("written", [" (1-3)", " (sources 1–3)", " (1—3)", "¹⁻³", "¹–³", "<sup>1-3</sup>", " [1-3]"])
def test_a_range_cites_all_its_sources(written: str) -> None:
    given = tuple(CitedSource(number, text="Words") for number in range(1, 5))
    cited = read_citations(f"The tower is tall{written}.", given).markdown
    assert cited.replace(" [", "[") == "The tower is tall[1][2][3]."


@for_each("label", ["²", "^²", "①"])
def test_a_label_in_digits_that_are_no_number_is_read(label: str) -> None:
    """`int` reads digits of every script, but not superscripts or circled figures."""
    (sentence, _), *_ = bound(f"The bridge is open [{label}].\n\n[{label}]: https://example.com/bridge\n")
    assert sentence.startswith("The bridge is open")


@for_each("number", ["9" * 10, "1" * 5000, "٣" * 5000])
def test_a_number_of_any_length_in_brackets_is_read(number: str) -> None:
    """It is no source, and the other citations of the text are read."""
    *_, (_, cited) = bound(f"It holds [{number}]. It works [1].", (CitedSource(1, text="one"),))
    assert cited == {"one"}


@for_each(
    ("title", "written"),
    [
        ("Große Straße", "Große Straße"),
        ("Grosse Strasse", "Große Straße"),
        ("ﬁne İzmir", "ﬁne İzmir"),
        ("Plan", "plan"),
    ],
)
def test_the_title_of_a_source_ends_where_it_is_written(title: str, written: str) -> None:
    """Case folding turns letters such as ß into two. The full stop after the title still ends the sentence."""
    cited = read_citations(f"It works. Source: {written}. The next one.", (CitedSource(1, title=title, text="x"),))
    assert cited.markdown == "It works. [1]. The next one."
