"""Remove the markup of Markdown and reStructuredText from a text, so that its words can be quoted."""

import re

_DATE_BEFORE = re.compile(r"^(?:\d{1,2}\.? )?[A-Z][a-zé]{2,8}\.? (?:\d{1,2}, )?\d{4}\s+[—–·-]+\s+")

IMAGE = re.compile(r"!\[[^\]\[]{0,300}\](?:\((?:[^()]|\([^()]{0,300}\)){0,600}\)|\[[^\]\[]{0,300}\])")
_LINK = re.compile(r"\[([^\]\[]+)\]\((?:[^()\s]|\([^()]*\))*(?:\s+\"[^\"]*\")?\)")
_REFERENCE = re.compile(r"\[([^\]\[]+)\]\[[^\]]*\]")
_MARKER = re.compile(
    r"\s?(?:\[(?:\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*|\^[\w-]+|edit|citation needed|note \d+)\]|【[^】]{0,12}】)"
)
_STRONG = re.compile(r"(\*\*|(?<!\w)__(?![a-z\d_]+__))(?=[^\s’”'\"])(.{1,400}?)(?<=\S)\1")  # `__init__` is a name
_EMPHASIS = re.compile(r"(?<![\w*\\])([*_])(?=[^\s*_’”])([^*_]+?)(?<=\S)\1(?![\w*])")
_ROLE = re.compile(r":[a-z]{1,40}(?::[a-z]{1,40}){0,4}:`~?\.?([^`<]{1,300}?)(?:\s?<[^`>]*>)?`")
_RST_LINK = re.compile(r"`([^`<>]+?)\s?<[^`<>]+>`__?|`([^`<>]+)`_(?!\w)")
_TAG = re.compile(r"</?(?:b|i|em|strong|mark|span|p|br|sup|sub|a|code|u|font|div)(?:\s[^<>]*)?/?>", re.IGNORECASE)
_NAME = re.compile(r"__[a-z\d_]+__")
_CODE_SPAN = re.compile(r"`[^`]*`")
_HIDDEN = "\x00"  # no shown text contains it
_HIDDEN_SPAN = re.compile(f"{_HIDDEN}(\\d+){_HIDDEN}")
_BLANKS = re.compile(r"\s+")
_EDGES = re.compile(r"^(?:[>#|]+\s?|\*\*\s?|¶\s?)+|(?:\s?(?:\*\*|¶|\|)){1,40}$")


def strip_markup(text: str) -> str:
    """Return the words of the text without links, images, footnote numbers and emphasis.

    Code spans keep every character: `a[1]`, `git diff <path>` and `__new__` are not markup.
    """
    shown = _BLANKS.sub(" ", text).strip()
    shown = _DATE_BEFORE.sub("", shown)
    if "`" not in shown:
        return _remove_signs(shown)
    spans: list[str] = []

    def hide(span: re.Match[str]) -> str:
        spans.append(span[0])
        return f"{_HIDDEN}{len(spans) - 1}{_HIDDEN}"

    shown = shown.replace(_HIDDEN, "")
    # Links and roles of reStructuredText, and double backticks, become text and code spans of Markdown.
    if "`_" in shown:
        shown = _RST_LINK.sub(lambda link: link[1] or link[2], shown)
    shown = _ROLE.sub(r"`\1`", shown).replace("``", "`")
    if shown.count("`") % 2:
        shown = shown.replace("`", "")
    shown = _remove_signs(_CODE_SPAN.sub(hide, shown))
    return _HIDDEN_SPAN.sub(lambda hidden: spans[int(hidden[1])], shown)


def _remove_signs(shown: str) -> str:
    if "[" in shown or "【" in shown:
        shown = _LINK.sub(_read_link_text, IMAGE.sub("", shown))
        shown = _REFERENCE.sub(r"\1", _MARKER.sub("", shown))
    if "<" in shown:
        shown = _TAG.sub("", shown)
    if shown[:1] in "*_" and shown[-1:] == shown[:1] and not _NAME.fullmatch(shown):
        shown = shown.strip("*_")
    if "*" in shown or "_" in shown:
        shown = _EMPHASIS.sub(r"\2", _STRONG.sub(r"\2", shown))
    shown = _EDGES.sub("", shown).strip()
    if shown[:1] == "*" and shown.count("*") == 1:
        shown = shown[1:]
    return shown[:-1] if shown.endswith("::") else shown


def _read_link_text(link: re.Match[str]) -> str:
    return "" if link[1].strip("^ ").isdigit() else link[1]  # a linked footnote
