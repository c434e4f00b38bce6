"""Sets of questions and documents out of the FAQs of real documentation, which scripts/debian_docs.sh fetches.

A document is a section as its author wrote it: the text between two headings, whatever its length. A heading of a FAQ is the
question, the section below it answers it, and the heading is left out of that section; so are the lines elsewhere that repeat
it, as tables of contents do. Sections of other pages of the same documentation are there to be mistaken for the answer.
Nobody wrote a question for a section, and nobody of this project wrote any of them.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from modules.llm_platform.domain.dtos.indexing_dtos import DocumentText, LeftOut  # noqa: E402
from modules.llm_platform.infrastructure.documents.file_source import FileDocumentSource  # noqa: E402
from modules.llm_platform.infrastructure.documents.reading import find_first_heading  # noqa: E402

SECTIONS = 4000  # sections of a set, about; then no further page is taken
QUESTIONS = 175
SEED = 1
LEAST_ANSWER = 12  # words: less is a reference to somewhere else
LEAST_WORDS = 8  # a shorter section answers nothing
QUESTION_WORDS = 4  # at least
QUESTION_CHARS = 250
LISTED_CHARS = 300  # a longer line is not an entry of a table of contents

_LEFT_OUT = re.compile(r"_sources|_modules|genindex|py-modindex|zsh-common/html/(?:FAQ|The-Zsh-FAQ)\.html|ffmpeg/api/")
_HEADING = re.compile(r"(#{1,6}) +(.*)")
_NUMBER = re.compile(r"^\(?[A-Z]?\d+(?:\.\d+)*[.:)]*\s+")
_ENTRY = re.compile(r"^\s*(?:[-*•]\s*)?(?:\(?[A-Z]?\d+(?:\.\d+)*[.:)]*\s+)?")
# Pages whose questions are not headings.
_ASKED = {"gitfaq.html": re.compile(r"(.{1,118}\?)$"), "sqlite3/faq.html": re.compile(r"\(\d+\) (.*)$")}


@dataclass(frozen=True)
class Source:
    """Where a set comes from: packages (patterns of their names), their folders below /usr/share/doc, and which pages ask."""

    packages: tuple[str, ...]
    folders: tuple[str, ...]
    faq: str
    pages: str = r"\.html$"


@dataclass(frozen=True)
class Section:
    """A section, and the title of the page that it is on."""

    title: str
    text: str

    @property
    def markdown(self) -> str:
        """A file of its own, as people write them: the title is its first heading."""
        return self.text if find_first_heading(self.text) == self.title else f"# {self.title}\n\n{self.text}"


@dataclass
class FaqSet:
    """`questions` tells the places of the sections that answer each."""

    sections: list[Section] = field(default_factory=list)
    questions: dict[str, list[int]] = field(default_factory=dict)


def _debian(language: str, package: str) -> Source:
    return Source(
        (package, "installation-guide-amd64"),
        ("debian", f"installation-guide-amd64/{language}"),
        r"debian/FAQ/",
        rf"(?:FAQ/.*\.{language}|installation-guide-amd64/.*)\.html$",
    )


SOURCES = {
    "Python": Source((r"python3\.[0-9]+-doc",), ("python3.[0-9]*/html",), r"/faq/"),
    "Django, SQLAlchemy, Celery, Scrapy": Source(
        ("python-django-doc", "python-sqlalchemy-doc", "python-celery-doc", "python-scrapy-doc"),
        ("python-django-doc", "python-sqlalchemy-doc", "python-celery-doc", "python-scrapy-doc"),
        r"/(?:faq/(?!index)|faq\.html)",
    ),
    "FFmpeg, fish, zsh, fetchmail": Source(
        ("ffmpeg-doc", "fish-common", "zsh-doc", "fetchmail"),
        ("ffmpeg", "fish", "zsh-common", "fetchmail"),
        r"fish/faq|zsh-common/html/FAQ0|manual/(?:mailing-list-)?faq|fetchmail-FAQ",
    ),
    "Debian, Git, SQLite": Source(
        ("debian-faq", "git-doc", "sqlite3-doc", "debian-policy"),
        ("debian", "git-doc", "sqlite3", "debian-policy"),
        r"debian/FAQ/|gitfaq|sqlite3/faq",
        r"(?<!\.de)(?<!\.fr)\.html$",
    ),
    "Debian in German": _debian("de", "debian-faq-de"),
    "Debian in French": _debian("fr", "debian-faq-fr"),
}


def build(folder: Path, source: Source) -> FaqSet:
    """Return the set of one source, the same on every machine that has the same packages."""
    pages = sorted(_pages(folder, source), key=lambda page: page[0])
    asking = [(name, page) for name, page in pages if re.search(source.faq, name)]
    others = [page for name, page in pages if not re.search(source.faq, name)]
    sections = [
        (page.title, *section) for name, page in asking for section in _sections(page.text, _question_pattern(name))
    ]
    known = {_plain(question) for _, question, _ in sections if question}
    made = FaqSet()
    for title, question, text in sections:
        _add(made, title, _unlisted(text, known), question)
    chance = random.Random(SEED)
    chance.shuffle(others)
    for page in others:
        if len(made.sections) < SECTIONS:
            for _, text in _sections(page.text, None, asks=False):
                _add(made, page.title, _unlisted(text, known), None)
    answered = [question for question, positions in made.questions.items() if _words(made, positions) >= LEAST_ANSWER]
    chosen = chance.sample(answered, min(QUESTIONS, len(answered)))
    made.questions = {question: made.questions[question] for question in chosen}
    return made


def _pages(folder: Path, source: Source) -> Iterator[tuple[str, DocumentText]]:
    """Yield the name of each, from the documentation's folder on, and what it holds."""
    positions = [position for name in source.folders for position in sorted(folder.glob(name))]
    if not positions:
        raise SystemExit(f"There is no {' or '.join(source.folders)} in {folder}: make faq-quality fetches them")
    for position in positions:
        with closing(FileDocumentSource().walk([position])) as found:
            for entry in found:
                if isinstance(entry, LeftOut):
                    continue
                name = f"{position.relative_to(folder)}/{entry.doc_id}"
                if _LEFT_OUT.search(name) or not re.search(source.pages, name):
                    continue
                page = entry.read()
                if not isinstance(page, LeftOut):  # nothing but frames or links
                    yield name, page


def _question_pattern(name: str) -> re.Pattern[str] | None:
    return next((pattern for end, pattern in _ASKED.items() if name.endswith(end)), None)


def _sections(text: str, asked: re.Pattern[str] | None, *, asks: bool = True) -> Iterator[tuple[str | None, str]]:
    """What is below each heading, with the question that the heading was where the page asks any."""
    held: list[str] = []
    question: str | None = None
    in_code = False
    for line in text.split("\n"):
        in_code ^= line.startswith("```")
        heading = None if in_code else _HEADING.match(line)
        paragraph = asked.match(line) if asked and not in_code else None
        if heading or paragraph:
            yield question, "\n".join(held)
            title = heading[2] if heading else paragraph[1] if paragraph else ""
            question = _question(title.replace("\xa0", " ")) if asks else None
            held = [] if question or paragraph else [line]
        else:
            held.append(line)
    yield question, "\n".join(held)


def _question(heading: str) -> str | None:
    asked = _NUMBER.sub("", heading.strip())
    asked = asked[: asked.rfind("?") + 1]
    return asked if len(asked.split()) >= QUESTION_WORDS and len(asked) < QUESTION_CHARS else None


def _unlisted(text: str, known: set[str]) -> str:
    """Without the lines that are a question themselves: tables of contents, links to the answer."""
    lines = text.split("\n")
    return "\n".join(line for line in lines if len(line) >= LISTED_CHARS or not known & {_plain(line), _entry(line)})


def _entry(line: str) -> str:
    return _plain(_ENTRY.sub("", line))


def _plain(line: str) -> str:
    return re.sub(r"\W+", " ", line.lower()).strip()


def _add(made: FaqSet, title: str, text: str, question: str | None) -> None:
    if len(text.split()) < (1 if question else LEAST_WORDS):
        return
    if question:
        made.questions.setdefault(question, []).append(len(made.sections))
    made.sections.append(Section(title, text.strip()))


def _words(made: FaqSet, positions: list[int]) -> int:
    return sum(len(made.sections[position].text.split()) for position in positions)
