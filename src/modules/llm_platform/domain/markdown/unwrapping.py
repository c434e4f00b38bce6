"""Remove what models put around an answer: a code fence around all of it, and a list of sources below it.

Both are recognised while the answer is streamed. Text that may belong to them is buffered until that is decided. The result
does not depend on how the answer is cut into pieces.
"""

import re
from collections.abc import Sequence

from modules.llm_platform.domain.dtos.source_dtos import Source
from modules.llm_platform.domain.markdown.blocks import BlockTracker, expand_tabs
from modules.llm_platform.domain.markdown.markers import MARKER, parse_numbers
from modules.llm_platform.domain.text.sentences import CLOSING, STOPS, WIDE_STOPS
from modules.llm_platform.domain.text.tokens import fold

MAX_ENTRY_CHARS = 1000  # a longer line is not an entry of a list of sources

_MARKDOWN = frozenset({"md", "markdown"})
_PLAIN = frozenset({"", "text", "txt", "plain", "plaintext"})
_OPENING = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*(|[\w+-]+[ \t]*)\Z")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)\Z")
_MAY_BE_FENCE = re.compile(r" {0,3}(?:[`~]|\Z)")
_PROSE = re.compile(r"(?<![^\W\d_])(?:[^\W\d_]+[ ,]+){3}[^\W\d_]")  # four words in a row
_SENTENCE_END = re.compile(rf"[{STOPS}{WIDE_STOPS}][{CLOSING}]*(?:[ \t]*\[[\d,\- ]+\])*[.。]?\s*\Z")

SOURCE_LIST_NAMES = (
    r"(?:list of |cited |used )?(?:sources?|references|citations|bibliography|works cited)(?: cited| used)?"
    r"|quellen(?:angaben|verzeichnis)?|referenzen|literatur(?:verzeichnis)?|références|fuentes|referencias|fonti|riferimenti"
    r"|fontes|referências|bronnen|źródła|kaynaklar|(?:список )?источник(?:и|ов)|ссылки|(?:список )?литератур[аы]|джерела"
    r"|посилання|来源|參考資料|参考资料|参考文献|引用来源|出典|情報源|출처|참고 ?(?:자료|문헌)|المصادر|المراجع|स्रोत|संदर्भ"
)
_TITLE = re.compile(
    rf"[ ]{{0,3}}(?:#{{1,6}}[ \t]+)?[*_]*(?:{SOURCE_LIST_NAMES})[*_]*[ \t]*(?P<colon>[:：]?)[*_]*[ \t#]*(?P<rest>.*)",
    re.I,
)
_ITEM = re.compile(r"[ \t>]*(?:[-*+•][ \t]+|\d{1,3}[.)][ \t]+)?")
_MARK = re.compile(r"(?:\[\d{1,9}\])+[ \t]*[:.—–-]?[ \t]*")
_ADDRESS = re.compile(r"\]\(<?[^)\s]+|`(?=[^`\s./]*[./])[^`\s]*`|https?://\S+|doc:\S+")
_ADDRESS_ALONE = re.compile(r"`(?=[^`\s./]*[./])[^`\s]*`|(?<!\()(?<!\(<)https?://[^\s)>]+|(?<!\()doc:[^\s)>]+")
_TARGET = re.compile(r"\]\([^)\]]*\)")
_NUMBER = re.compile(r"\[\d{1,9}\]")
_RULE = re.compile(r"[ ]{0,3}(?:[-*_][ \t]*){3,}\Z")
_NO_WORD = re.compile(r"[\W_]+")


class FenceRemover:
    """Removes a fence around the whole of an answer that arrives in pieces. Other fences stay.

    A fence named `markdown` contains the answer if its text cites one of the `numbers`. Until it does, and in a fence without
    a name, the text is buffered until the fence is closed and nothing follows.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = sorted(numbers)
        self._state = "start"
        self._buffer: list[str] = []  # the lines from the opening fence on, unchanged
        self._line: list[str] = []  # the pieces of the incomplete line
        self._waits = False  # True if that line is buffered up to its end, whatever it contains
        self._body: list[str] = []  # the lines inside the fence
        self._fence = self._name = self._inner = ""
        self._is_mid_line = False  # True if a part of the line was already returned

    def feed(self, text: str) -> str:
        if self._state == "through":
            return text
        if self._waits and "\n" not in text:
            self._line.append(text)  # joined once, at the end of the line: its length costs linear time
            return ""
        *lines, partial = ("".join(self._line) + text).split("\n")
        parts = [f"{line}\n" if self._state == "through" else self._take(f"{line}\n") for line in lines]
        parts.append(self._release_partial(partial))
        return "".join(parts)

    def finish(self) -> str:
        last, self._line = "".join(self._line), []
        text = self._take(last) if last else ""
        rest = self._body if self._state in ("inside", "closed") and self._is_the_answer() else self._buffer
        return text + ("".join(rest) if self._state != "unwrapped" else "")

    def _release_partial(self, line: str) -> str:
        """Return the part of the incomplete line that needs no buffer. In most answers that is all of it."""
        may_be_fence = _MAY_BE_FENCE.match(line) and not self._is_mid_line
        if not line or self._state in ("inside", "closed") or (may_be_fence and self._state != "through"):
            self._line, self._waits = [line], bool(line.strip())
            return ""
        self._line, self._waits = [], False
        if self._state == "start":
            return self._pass_through() + line
        self._is_mid_line = True
        return line

    def _take(self, line: str) -> str:
        if self._state == "start":
            return self._read_first(line)
        if self._state == "unwrapped":
            return self._unwrap(line)
        self._buffer.append(line)
        if self._state == "closed":
            return self._pass_through() if line.strip() else ""
        if self._closes(line):
            self._state = "closed"
            return ""
        self._body.append(line)
        if self._name in _MARKDOWN and not self._inner and self._cites(line):
            self._state = "unwrapped"
            body, self._body, self._buffer = self._body, [], []
            return "".join(body)
        return ""

    def _read_first(self, line: str) -> str:
        self._buffer.append(line)
        if not line.strip():
            return ""
        opening = _OPENING.match(line.rstrip("\n"))
        if opening is None or opening[2].strip().lower() not in _MARKDOWN | _PLAIN:
            return self._pass_through()
        self._state, self._fence, self._name = "inside", opening[1], opening[2].strip().lower()
        return ""

    def _unwrap(self, line: str) -> str:
        if self._is_mid_line:
            self._is_mid_line = not line.endswith("\n")
            return line
        if self._closes(line):
            self._state = "through"
            return ""
        return line

    def _closes(self, line: str) -> bool:
        """Return whether the line closes the outer fence. A fence with a name opens an inner one."""
        fence = _FENCE.match(line.rstrip("\n"))
        if fence is None:
            return False
        bare = not fence[2].strip()
        if self._inner:
            self._inner = "" if bare and fence[1].startswith(self._inner) else self._inner
            return False
        if bare and fence[1].startswith(self._fence):
            return True
        self._inner = fence[1]
        return False

    def _pass_through(self) -> str:
        self._state, buffered, self._buffer = "through", self._buffer, []
        return "".join(buffered)

    def _cites(self, text: str) -> bool:
        return any(parse_numbers(marker[1], self._numbers) for marker in MARKER.finditer(text))

    def _is_the_answer(self) -> bool:
        """Return whether the fence contains prose. A fence with only code stays: the code may be what was asked for."""
        body = "".join(self._body)
        if self._cites(body) or _SENTENCE_END.search(body):
            return True
        return self._name in _MARKDOWN and bool(_PROSE.search(body))


class SourceListRemover:
    """Removes the model's own list of sources from the end of a sanitised answer that arrives in pieces.

    An entry begins with the number of a source, or contains an address or the title of a source. A list with more text after
    it stays, and so does one with citations only, such as a list of sources of energy.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._titles = {title for source in sources if (title := _words(source.title))}
        self._blocks = BlockTracker()
        self._line: list[str] = []  # the pieces of the incomplete line
        self._buffer: list[str] = []  # blank lines, rules, and lines that may be the list
        self._in_list = False  # True after the title of a list, or after an entry without a title
        self._is_mid_line = False

    def feed(self, text: str) -> str:
        self._line.append(text)
        if self._in_list and "\n" not in text:
            return ""  # joined once, at the end of the line: its length costs linear time
        *lines, partial = "".join(self._line).split("\n")
        parts = [self._take(line, "\n") for line in lines]
        self._line = [partial]
        if partial and (self._is_mid_line or not (self._in_list or self._may_begin(partial))):
            parts.append(self._release() + partial)
            if not self._is_mid_line:
                self._blocks.take(expand_tabs(partial))
            self._line, self._is_mid_line = [], True
        return "".join(parts)

    def finish(self) -> str:
        line = "".join(self._line)
        text = self._take(line, "") if line else ""
        return text if self._in_list else text + self._release()

    def _take(self, line: str, end: str) -> str:
        if self._is_mid_line:
            self._is_mid_line = not end
            return line + end
        kind = self._blocks.take(expand_tabs(line)).kind
        if kind in ("code", "fence", "indented"):
            return self._release() + line + end
        if kind == "blank" or _RULE.match(line):
            self._buffer.append(line + end)
            return ""
        if self._in_list and self._is_entry(line):
            self._buffer.append(line + end)
            return ""
        before = self._release() if self._in_list else ""
        title = _TITLE.fullmatch(line)
        if title is not None and self._is_title(title):
            self._in_list = True
            self._buffer.append(line + end)
            return before
        if self._is_bare_entry(line):
            self._in_list = True
            self._buffer.append(line + end)
            return before
        return before + self._release() + line + end

    def _release(self) -> str:
        buffered, self._buffer = self._buffer, []
        self._in_list = False
        return "".join(buffered)

    def _may_begin(self, line: str) -> bool:
        """Return whether an incomplete line may be a title, a rule or an entry."""
        return len(line) <= MAX_ENTRY_CHARS and not _SENTENCE_END.search(line)

    def _is_title(self, title: re.Match[str]) -> bool:
        rest = title["rest"].strip()
        if not rest or not title["colon"] or not _MARK.match(rest):
            return not rest
        is_sentence = (
            _SENTENCE_END.search(rest) and _words(_strip_entry(rest)) not in self._titles and not _ADDRESS.search(rest)
        )
        return not is_sentence

    def _is_entry(self, line: str) -> bool:
        text = line[_ITEM.match(line).end() :]  # type: ignore[union-attr]  # matches nothing too
        if len(text) > MAX_ENTRY_CHARS:
            return False
        return bool(_MARK.match(text) or _ADDRESS.search(text) or _words(_strip_entry(text)) in self._titles)

    def _is_bare_entry(self, line: str) -> bool:
        """Return whether a line below no title is an entry: a number, and only the title or the address of a source."""
        text = line[_ITEM.match(line).end() :]  # type: ignore[union-attr]  # matches nothing too
        mark = _MARK.match(text)
        if mark is None or len(text) > MAX_ENTRY_CHARS:
            return False
        rest = text[mark.end() :]
        named = _words(_strip_entry(rest))
        return named in self._titles or (not named and bool(_ADDRESS.search(rest)))


def _strip_entry(text: str) -> str:
    """Return an entry without its number, addresses and link syntax."""
    return _TARGET.sub(" ", _NUMBER.sub(" ", _ADDRESS_ALONE.sub(" ", text)))


def _words(text: str) -> str:
    return _NO_WORD.sub(" ", fold(text)).strip()
