"""Make pairs in several languages from texts that people translated: a teacher reads the English side, the model each side.

    python -m scripts.support_model.parallel OUT.jsonl.gz --lists LISTS --help-pages UNPACKED

LISTS are apt's lists with translated descriptions, UNPACKED contains the unpacked `libreoffice-help-*` packages. A row has
`claim` and `source` in any two languages, and `english`, the same two in English. No row has a label.
"""

import argparse
import collections
import html
import json
import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.support_model.texts import TAG, write_pairs

LANGUAGES = {
    "de": 4.0,
    "fr": 4.0,
    "ru": 3.0,
    "zh": 3.0,
    "es": 2.0,
    "it": 1.5,
    "pt": 1.0,
    "pl": 1.0,
    "nl": 0.5,
    "ja": 1.0,
}
HELP_FOLDERS = {"en-US": "en", "zh-CN": "zh"}  # the others are named by their language
PARAGRAPH = re.compile(r'<(?:p|h\d)\b[^>]*\bid="((?:par|hd)_id\w+)"[^>]*>(.*?)</(?:p|h\d)>', re.S)
STANZA_HEAD = re.compile(r"^Package: (\S+)\nDescription-md5: (\w+)", re.M)
TOLD = re.compile(r"^Description-(\w+): (.*)\n((?: .*\n?)+)", re.M)
NUMBER = re.compile(r"(?<![\w.,])\d{1,4}(?![\w.,]*\d)")
CLAIM_WORDS, PARAGRAPH_WORDS = (6, 40), (6, 80)
WINDOW = 3  # paragraphs of a passage
PAGES_TIMES, DESCRIPTIONS = 4, 45_000  # how often a paragraph of the help is a claim; claims from descriptions

Texts = dict[str, str]  # one text by its language
Row = dict[str, str]


def read_help(unpacked: Path) -> Iterator[list[Texts]]:
    """Yield the paragraphs of each help page, each in the languages that have it: they have the same ids."""
    root = unpacked / "usr/share/libreoffice/help"
    folders = [folder for folder in sorted(root.iterdir()) if (folder / "text").is_dir()]
    for page in sorted((root / "en-US/text").rglob("*.html")):
        found: dict[str, Texts] = {}
        for folder in folders:
            path = folder / page.relative_to(root / "en-US")
            if path.exists():
                language = HELP_FOLDERS.get(folder.name, folder.name)
                for name, block in PARAGRAPH.findall(path.read_text(encoding="utf-8", errors="replace")):
                    found.setdefault(name, {})[language] = " ".join(html.unescape(TAG.sub("", block)).split())
        paragraphs = [one for one in found.values() if is_between(one.get("en", ""), PARAGRAPH_WORDS)]
        paragraphs = [
            {lang: text for lang, text in one.items() if lang == "en" or text != one["en"]} for one in paragraphs
        ]
        if len(paragraphs) > 1:
            yield paragraphs


def read_descriptions(lists: Path) -> Iterator[list[Texts]]:
    """Yield the line of each package and the paragraphs of its description, in the languages with as many paragraphs."""
    found: dict[str, dict[str, list[str]]] = collections.defaultdict(dict)
    for path in sorted(lists.glob("*Translation-*")):
        text = subprocess.run(
            ["/usr/lib/apt/apt-helper", "cat-file", str(path)], capture_output=True, check=True
        ).stdout
        for entry in text.decode("utf-8", errors="replace").split("\n\n"):
            head, told = STANZA_HEAD.search(entry), TOLD.search(entry)
            if head and told:
                paragraphs = "\n".join(line.strip() for line in told[3].splitlines()).split("\n.\n")
                language = told[1].split("_")[0]
                if not any(re.search(r"^[*-] ", one, re.M) for one in paragraphs):
                    found[head[2]][language] = [told[2].strip(), *(" ".join(one.split()) for one in paragraphs)]
    for by_language in found.values():
        english = by_language.get("en", [])
        complete = {lang: texts for lang, texts in by_language.items() if len(texts) == len(english)}
        if len(complete) > 1:
            yield [
                {lang: texts[at] for lang, texts in complete.items() if lang == "en" or texts[at] != english[at]}
                for at in range(len(english))
            ]


def is_between(text: str, limits: tuple[int, int]) -> bool:
    return limits[0] <= len(text.split()) <= limits[1]


def join(paragraphs: Sequence[Texts], language: str) -> str | None:
    """Return the paragraphs in a language, or None where one of them is not translated."""
    texts = [one.get(language, "") for one in paragraphs]
    return " ".join(texts) if texts and all(texts) else None


def draw_languages(drawn: random.Random) -> tuple[str, str]:
    """Return the languages of a claim and its passage: mostly the same one, or one of them is English."""
    language = drawn.choices(list(LANGUAGES), list(LANGUAGES.values()))[0]
    return drawn.choice([(language, language), (language, language), (language, "en"), ("en", language)])


def make_row(claim: Texts, passage: Sequence[Texts], name: str, drawn: random.Random, *, is_copy: bool) -> Row | None:
    """Return the claim beside the passage in two languages that both are translated to; a copy has two different ones."""
    for _ in range(12):
        first, second = draw_languages(drawn)
        source, english = join(passage, second), join(passage, "en")
        if claim.get(first) and source and english and not (is_copy and first == second):
            row = {
                "claim": claim[first], "source": source, "label": "", "set": name,
                "english": json.dumps([claim["en"], english]), "languages": f"{first} {second}",
            }  # fmt: skip
            return change_number(row, drawn) if drawn.random() < 0.2 else row
    return None


def change_number(row: Row, drawn: random.Random) -> Row:
    """Return the row with another number in the claim, in both languages; unchanged without a number that both have."""
    claim, source = json.loads(row["english"])
    shared = [found[0] for found in NUMBER.finditer(claim) if re.search(rf"(?<!\d){found[0]}(?!\d)", row["claim"])]
    if not shared:
        return row
    old = drawn.choice(shared)
    new = str(max(1, int(old) + drawn.choice([-2, -1, 1, 2, 3, 5, 10])))

    def replace(text: str) -> str:
        return re.sub(rf"(?<!\d){old}(?!\d)", new, text)

    return row | {"claim": replace(row["claim"]), "english": json.dumps([replace(claim), source])}


def place_claims(documents: Sequence[list[Texts]], name: str, drawn: random.Random, times: int) -> Iterator[Row]:
    """Yield each claim beside the paragraphs around it, with and without itself, and beside those of the next document."""
    for number, paragraphs in enumerate(documents):
        for at, claim in enumerate(paragraphs):
            if not is_between(claim["en"], CLAIM_WORDS) or len(claim) < 2:
                continue
            first = max(0, at - drawn.randrange(WINDOW))
            around = paragraphs[first : first + WINDOW]
            others = [one for one in around if one is not claim]
            further = documents[(number + 1) % len(documents)][:WINDOW]
            choices = [(around, True), (others, False), (others, False), (further, False)]
            for passage, is_copy in drawn.sample(choices, min(times, len(choices))):
                if row := make_row(claim, passage, name, drawn, is_copy=is_copy):
                    yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--lists", type=Path, required=True)
    parser.add_argument("--help-pages", type=Path, required=True)
    a = parser.parse_args()
    drawn = random.Random(11)
    rows = list(place_claims(list(read_help(a.help_pages)), "help", drawn, PAGES_TIMES))
    described = list(place_claims(list(read_descriptions(a.lists)), "descriptions", drawn, 2))
    rows += drawn.sample(described, min(DESCRIPTIONS, len(described)))
    write_pairs(a.out, list({(row["claim"], row["source"]): row for row in rows}.values()))
    print(collections.Counter(row["languages"] for row in rows))


if __name__ == "__main__":
    main()
