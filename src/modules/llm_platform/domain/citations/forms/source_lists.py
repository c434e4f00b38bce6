"""Find the sources that a text lists: numbered lists, footnotes, link definitions and bibliographies.

A list is below a heading such as "Sources", or its lines begin with `[1]`. Each line is read once.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from modules.llm_platform.domain.markdown.addresses import read_address
from modules.llm_platform.domain.markdown.blocks import BlockTracker, LineKind, expand_tabs
from modules.llm_platform.domain.markdown.markers import LINE
from modules.llm_platform.domain.markdown.unwrapping import SOURCE_LIST_NAMES
from modules.llm_platform.domain.text.tokens import fold

MAX_ENTRY_CHARS: Final = 2000  # the rest of a longer entry is not read
MAX_TITLE_CHARS: Final = 300
MAX_HEADING_WORDS: Final = 7  # a longer line is not the heading of a list
MAX_HEADING_CHARS: Final = 60
MAX_NUMBER: Final = 999  # a larger number, as in `[2021]`, is a year
MAX_WORDS_AFTER_ADDRESS: Final = 12  # a line with more words after its address is prose

# The patterns of a Markdown link: its text, its target, and both with an optional title.
LINK_TEXT: Final = r"(?:[^\[\]\n\\]|\\.|\[[^\[\]\n]{0,40}\]){0,300}"
LINK_URL: Final = r"(?:<[^<>\n]{1,2000}>|[^\s()<>]{1,2000}(?:\([^\s()]{0,200}\)[^\s()]{0,500}){0,8})"
LINK: Final = rf"""\[{LINK_TEXT}\]\({LINK_URL}(?:[ ]+(?:"[^"\n]{{0,300}}"|'[^'\n]{{0,300}}'))?\)"""
ADDRESS_START: Final = re.compile(r"https?(?=:)|(?<![\w.@/])www\.", re.I)

_NAMES = (
    rf"(?:{SOURCE_LIST_NAMES}|notes|footnotes|endnotes|further reading|learn more|fußnoten|notas|примечания|脚注|注释)"
)
_PLAIN_HEADING = re.compile(rf"\s{{0,3}}{_NAMES}\s*[:：]?\s*\Z", re.I)
_MARKED_HEADING = re.compile(r"\s{0,3}(?:#{1,6}\s+|(?=\*\*|__))(.{1,120}?)\s*#*\s*\Z")
_NAME_INSIDE = re.compile(rf"(?<!\w){_NAMES}(?!\w)", re.I)
_BOLD_LINE = re.compile(r"\s{0,3}(\*\*|__).{1,120}\1:?\s*\Z")
_FOOTNOTE = re.compile(r"\s{0,3}\[\^([^\]\[\s]{1,60})\]:\s*(.*)")
_DEFINITION = re.compile(
    r"""\s{0,3}\[([^\]\[^][^\]\[]{0,80})\]:\s*<?([^\s<>]{4,2000})>?(?:\s+["'(](.{0,500})["')])?\s*\Z"""
)
_BULLET = r"(?:[-*+•]\s+)?"
_BRACKETED = re.compile(rf"[\s>]{{0,8}}{_BULLET}(?:\\?\[\^?(\d{{1,4}})\\?\]|【(\d{{1,4}})】)(?!\()\s*[:.—–-]?\s*(.*)")
_LINKED_LABEL = re.compile(rf"[\s>]{{0,8}}{_BULLET}(\[\\?\[?(\d{{1,4}})\\?\]?\]\({LINK_URL}\).*)")
_NUMBERED = re.compile(r"[\s>]{0,8}(?:\((\d{1,4})\)|(\d{1,4})[.)](?=\s)|(\d{1,4})\s*(?=[\^↑]))\s*(.*)")
_BACKLINK = re.compile(r"[\^↑]\s*(?:Jump up to:?\s*)?(?:(?:[a-z]{1,2}\s+){1,12}(?=[A-Z\"“]))?")
_ITEM = re.compile(r"[\s>]{0,8}[-*+•]\s+(.*)")
_DATED = re.compile(r"[^\W\d_].{0,400}[(\[,. ](?:1[5-9]|20|21)\d\d[a-z]?\b|.{0,400}\(n\.\s?d\.\)")
_DOI = re.compile(r"\bdoi:\s*(10\.\d{4,9}/[^\s\"<>\])]{1,200})", re.I)
_ARXIV = re.compile(r"\barxiv:\s*(\d{4}\.\d{4,5})", re.I)
_LINK = re.compile(rf"\[({LINK_TEXT})\]\(({LINK_URL})")
_DECORATION = re.compile(r"[*_`]+")
_AROUND = " \t\"'“”„»«.,;:|–—-<>()[]{}"
_ACCESSED = re.compile(
    r"[,.]? ?(?:accessed|retrieved|abgerufen|consulté|consultado)(?: on| am| le| el)?\b.{0,60}\Z", re.I
)


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a text, without its line end. `start` is its offset in the text, and `kind` the kind of its Markdown block."""

    start: int
    text: str
    kind: LineKind


@dataclass(frozen=True, slots=True)
class ListedSource:
    """An entry of a list of sources.

    - `label` is the number of the entry, `^name` for a footnote, the name of a link definition, or empty.
    - `text` is the entry without its label.
    """

    label: str
    text: str

    @property
    def url(self) -> str:
        """The first address in the entry; empty without one."""
        return find_url(self.text)

    @property
    def title(self) -> str:
        return _extract_title(self.text)


@dataclass(slots=True)
class SourceLists:
    """The entries of all lists, in order, and the positions of their lines, headings included."""

    entries: list[ListedSource] = field(default_factory=list)
    lines: set[int] = field(default_factory=set)


def read_text_lines(text: str) -> list[TextLine]:
    """Return the lines of a Markdown or plain text, each with its kind."""
    blocks = BlockTracker()
    return [
        TextLine(found.start(), line := found[0].removesuffix("\n"), blocks.take(expand_tabs(line)).kind)
        for found in LINE.finditer(text)
        if found[0]
    ]


def find_source_lists(lines: Sequence[TextLine]) -> SourceLists:
    """Return the lists of sources among the lines of a text."""
    return _ListReader(lines).read()


def find_url(text: str) -> str:
    """Return the first address in a text, or the address of a DOI or an arXiv number; empty without one."""
    if link := _LINK.search(text):
        target = link[2].strip("<>")
        if ADDRESS_START.match(target):
            return add_scheme(target)
    for found in find_addresses(text):
        return add_scheme(text[slice(*found)])
    if doi := _DOI.search(text):
        return f"https://doi.org/{doi[1].rstrip('.,;')}"
    arxiv = _ARXIV.search(text)
    return f"https://arxiv.org/abs/{arxiv[1]}" if arxiv else ""


def find_addresses(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each address that is written out in a text."""
    at = 0
    while found := ADDRESS_START.search(text, at):
        sign = found.start() if found[0].lower() == "www." else found.end()
        span = read_address(text, sign, found.start())
        if span:
            yield span
        at = max(found.end(), span[1] if span else 0)


def add_scheme(url: str) -> str:
    return f"https://{url}" if url[:4].lower() == "www." else url


def is_list_heading(line: TextLine) -> bool:
    """Return whether a line is the heading of a list of sources, such as "Sources:" or "**Works cited**"."""
    if _PLAIN_HEADING.match(line.text[:80]):
        return True
    marked = _MARKED_HEADING.match(line.text) if len(line.text) <= 140 else None
    if marked is None:
        return False
    words = marked[1].strip("*_: ")
    is_bold_line = line.kind == "heading" or _BOLD_LINE.match(line.text) is not None
    return is_bold_line and len(words.split()) <= MAX_HEADING_WORDS and _NAME_INSIDE.search(words) is not None


class _ListReader:
    """Reads the lines of a text in order, and collects its lists of sources."""

    def __init__(self, lines: Sequence[TextLine]) -> None:
        self._lines = lines
        self._found = SourceLists()
        self._entry: tuple[str, str] | None = None  # the label and the text of the entry that may continue
        # The open list: the position of its heading, and whether it has entries and these have numbers.
        self._heading: int | None = None
        self._has_entry = False
        self._is_numbered = False
        self._is_after_blank = True

    def read(self) -> SourceLists:
        for number, line in enumerate(self._lines):
            if line.kind in ("code", "fence"):
                self._end_list()
            elif line.kind == "blank" or not line.text.strip():
                self._is_after_blank = True
                continue
            elif is_list_heading(line) or (self._is_after_blank and self._is_heading_by_what_follows(number)):
                self._end_list()
                self._heading = number
                self._has_entry = self._is_numbered = False
            elif self._is_entry(number, line):
                self._found.lines.add(number)
            self._is_after_blank = False
        self._end_entry()
        return self._found

    def _is_heading_by_what_follows(self, number: int) -> bool:
        """Return whether a short line that contains a name such as "Sources" is above an entry with an address."""
        words = self._lines[number].text.strip(" *_#:：")
        if not 0 < len(words) <= MAX_HEADING_CHARS or words[-1] in ".,;!?。" or not _NAME_INSIDE.search(words):
            return False
        below = next((line.text for line in self._lines[number + 1 : number + 3] if line.text.strip()), "")
        is_entry = (
            _split_label(below) or _ITEM.match(below) or _BACKLINK.match(below.lstrip()) or _is_address_alone(below)
        )
        return bool(is_entry and find_url(below[:MAX_ENTRY_CHARS]))

    def _is_entry(self, number: int, line: TextLine) -> bool:
        text = line.text[:MAX_ENTRY_CHARS]
        if found := _FOOTNOTE.match(text):
            self._begin(f"^{found[1]}", found[2])
            return True
        if (found := _DEFINITION.match(text)) and (address := find_url(found[2])):
            self._begin(found[1].strip(), f"{found[3] or ''} {address}")
            return True
        if self._heading is None:
            return self._is_entry_without_heading(number, text)
        if line.kind in ("heading", "rule") or (_BOLD_LINE.match(text) and not find_url(text)):
            is_end = line.kind != "rule"
            if is_end:
                self._end_list()
            return False
        if self._is_listed(text):
            if not self._has_entry:
                self._found.lines.add(self._heading)
            self._has_entry = True
            return True
        self._end_list()
        return False

    def _is_listed(self, text: str) -> bool:
        """Return whether a line below a heading begins or continues an entry."""
        if label_and_rest := _split_label(text):
            self._is_numbered = True
            self._begin(*label_and_rest)
            return True
        is_indented = text[:2].isspace()
        continues = self._entry is not None and (is_indented or not self._is_after_blank)
        lacks_address = self._entry is not None and not find_url(self._entry[1])
        has_address = bool(find_url(text))
        item = _ITEM.match(text)
        goes_on = is_indented or (not item and (self._is_numbered or (has_address and not _DATED.match(text))))
        if continues and goes_on and (lacks_address or not has_address):
            self._continue(text)
            return True
        if item:
            self._begin("", item[1])
            return True
        if backlink := _BACKLINK.match(text.lstrip()):
            self._begin("", text.lstrip()[backlink.end() :])
            return True
        if has_address and lacks_address and self._entry is not None and not _DATED.match(text):
            self._continue(text)
            return True
        if has_address or _DATED.match(text):
            self._begin("", text)
            return True
        if continues:
            self._continue(text)
        return continues

    def _is_entry_without_heading(self, number: int, text: str) -> bool:
        """Return whether a line is `[1] Title https://…`, or belongs to such a line."""
        following = self._lines[number + 1].text if number + 1 < len(self._lines) else ""
        found = _BRACKETED.match(text)
        address = next(find_addresses(found[3]), None) if found else None
        is_prose = address and found and len(found[3][address[1] :].split()) > MAX_WORDS_AFTER_ADDRESS
        if found and (find_url(found[3]) or _is_address_alone(following)) and not is_prose:
            self._begin(found[1] or found[2], found[3])
            return True
        continues = self._entry is not None and not self._is_after_blank
        if continues and (
            text[:2].isspace() or (_is_address_alone(text) and self._entry and not find_url(self._entry[1]))
        ):
            self._continue(text)
            return True
        if (numbered := _NUMBERED.match(text)) and _is_address_alone(numbered[4]):
            self._begin(numbered[1] or numbered[2] or numbered[3], numbered[4])
            return True
        self._end_entry()
        return False

    def _begin(self, label: str, text: str) -> None:
        self._end_entry()
        self._entry = (label, text)

    def _continue(self, text: str) -> None:
        if self._entry is not None:
            label, before = self._entry
            self._entry = (label, f"{before} {text.strip()}"[:MAX_ENTRY_CHARS])

    def _end_entry(self) -> None:
        if self._entry is not None:
            self._found.entries.append(ListedSource(self._entry[0], self._entry[1].strip()))
        self._entry = None

    def _end_list(self) -> None:
        self._end_entry()
        self._heading = None


def _split_label(text: str) -> tuple[str, str] | None:
    """Return the number that a line begins with, and the rest of the line; None without a number."""
    if found := _BRACKETED.match(text):
        return found[1] or found[2], _BACKLINK.sub("", found[3], count=1) if found[3][:1] in "^↑" else found[3]
    if found := _LINKED_LABEL.match(text):
        return found[2], found[1]
    if found := _NUMBERED.match(text):
        rest = found[4]
        return found[1] or found[2] or found[3], rest[back.end() :] if (back := _BACKLINK.match(rest)) else rest
    return None


def _is_address_alone(text: str) -> bool:
    """Return whether a line is a single address or link."""
    bare = text.strip().strip("<>")
    if link := re.fullmatch(LINK, bare):
        return bool(find_url(link[0]))
    span = next(find_addresses(bare), None)
    return span is not None and span[0] == 0 and len(bare) - span[1] <= 1


def _extract_title(text: str) -> str:
    """Return the title in an entry: the text of its link, or the entry without its address."""
    link = _LINK.search(text)
    if link and not ADDRESS_START.match(link[1]) and not link[1].strip("[]\\ ").isdigit():
        before = text[: link.start()].strip(_AROUND)
        title = link[1] if len(before) < len(link[1]) else before
    else:
        parts, done = [], 0
        without_links = _LINK.sub(" ", text)
        for start, end in find_addresses(without_links):
            parts.append(without_links[done:start])
            done = end
        title = "".join([*parts, without_links[done:]])
    title = _ACCESSED.sub("", " ".join(_DECORATION.sub("", title).split()).strip(_AROUND))
    return title.strip(_AROUND)[:MAX_TITLE_CHARS]


def fold_words(text: str) -> list[str]:
    """Return the words of a text, folded for comparison."""
    return re.findall(r"[^\W_]+", fold(text))
