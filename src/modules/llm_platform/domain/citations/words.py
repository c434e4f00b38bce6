"""Words as they are compared: cut out of any script, and recognised in another form."""

from __future__ import annotations

import re
from collections.abc import Sequence

from modules.llm_platform.domain.text.tokens import fold

STEM_LETTERS = 3  # that two forms of a word share at least
MIN_STEM = 4  # letters from which on the share below is enough
STEM_SHARE = 0.55  # of the longer one
SHORT_STEM_SHARE = 0.6  # of words that share three letters only
MIN_COMPOUND_PART = 5  # letters

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
_FIGURES = r"[0-9]+(?:[.,:/-][0-9]+)+(?![^\W_])"
_SPACED = rf"[^\W_{UNSPACED}]+(?:[_.:/'’+#@-]+[^\W_{UNSPACED}]+)*[+#]*(?:\(\))?"
_DUNDER = rf"_+[^\W_{UNSPACED}]+(?:_+[^\W_{UNSPACED}]*)*"
WORD = re.compile(rf"{_FIGURES}|[{UNSPACED}]+|{_SPACED}|{_DUNDER}")
WORD_RUN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")  # plain words, of identifiers the parts
_UNSPACED_START = re.compile(rf"[{UNSPACED}]")
_NO_WORD = re.compile(r"[\W_]+")
_NO_ASCII_WORD = {code: " " for code in range(128) if not chr(code).isalnum()}
_BAR = "\0"
_NO_ASCII_WORD_NOR_BAR = {code: " " for code in _NO_ASCII_WORD if code != ord(_BAR)}


def is_unspaced(word: str) -> bool:
    """Whether it is of a script that writes no blanks between words."""
    return _UNSPACED_START.match(word) is not None


def squash(text: str) -> str:
    """The words of a text only, one blank around each: the same for any punctuation and markup."""
    if text.isascii():  # most of most texts, and three times as fast
        return f" {' '.join(text.lower().translate(_NO_ASCII_WORD).split())} "
    return f" {_NO_WORD.sub(' ', fold(text)).strip()} "


def squash_each(texts: Sequence[str]) -> str:
    """Each as `squash` gives it, a bar between two; in one go where all are plain."""
    joined = f" {_BAR} ".join(texts)
    if not joined.isascii() or joined.count(_BAR) >= len(texts):
        return "|".join(map(squash, texts))
    words = " ".join(joined.lower().translate(_NO_ASCII_WORD_NOR_BAR).split())
    return f" {words} ".replace(_BAR, "|")


def is_form(one: str, other: str) -> bool:
    """Whether two words share so much of their beginning that one is likely a form of the other; figures never are."""
    shorter = min(len(one), len(other))
    if shorter < STEM_LETTERS or one[:STEM_LETTERS] != other[:STEM_LETTERS] or not (one.isalpha() and other.isalpha()):
        return False
    longer = max(len(one), len(other))
    if shorter < STEM_SHARE * longer:
        return False
    if shorter == STEM_LETTERS:  # `runs`, but not `theft` for `the` or `user` for `use`
        return one == f"{other}s" or other == f"{one}s"
    shared = STEM_LETTERS
    while shared < shorter and one[shared] == other[shared]:
        shared += 1
    return shared >= (STEM_SHARE if shared >= MIN_STEM else SHORT_STEM_SHARE) * longer


def is_part(word: str, other: str) -> bool:
    """Whether one word is the end of the other, a compound, or both are forms of one with a German `ge-`."""
    if word.endswith(other) or other.endswith(word):
        return min(len(word), len(other)) >= MIN_COMPOUND_PART
    return (other.startswith("ge") and is_form(word, other[2:])) or (word.startswith("ge") and is_form(word[2:], other))


def is_same_word(one: str, other: str) -> bool:
    return one == other or is_form(one, other)


def is_form_of_any(word: str, others: Sequence[str]) -> bool:
    if word in others:
        return True
    start = word[:STEM_LETTERS]
    return any(other.startswith(start) and is_form(word, other) for other in others)


# Words that say the same and do not look alike: irregular forms, countries and their adjectives, units, plain synonyms.
# Regular forms need no table (`evidence.is_form`). Kept short on purpose: each family must hold in any text.


_FAMILIES = """
begin begins began begun beginning start starts started starting launch launched | rise rises rose risen rising
increase increases increased grow grows grew grown growth | fall falls fell fallen decline declines declined decrease
decreases decreased drop drops dropped | build builds built building construct constructed construction | buy buys
bought purchase purchases purchased acquire acquired | sell sells sold | say says said state states stated | lead
leads led | leave leaves left | hold holds held | write writes wrote written | read reads | run runs ran running |
take takes took taken | give gives gave given | make makes made create creates created produce produces produced |
find finds found | found founded establish established | keep keeps kept remain remains remained stay stays stayed |
pay pays paid | send sends sent | spend spends spent | win wins won | lose loses lost | become becomes became | know
knows knew known | see sees saw seen | think thought | come comes came | go goes went gone | bring brings brought |
hear hears heard | mean means meant | meet meets met | choose chooses chose chosen choice pick picked select selected
selects | speak spoke spoken | break breaks broke broken | drive drives drove driven | draw drew drawn | eat ate eaten
| fly flew flown | forget forgot forgotten | teach taught | use uses used using employ employs employed utilise
utilised utilize utilized | need needs needed require requires required | show shows showed shown display displays
displayed | hide hides hid hidden | get gets got gotten receive receives received | contain contains contained include
includes included comprise comprises comprised hold holds | have has had | be is are was were been | do does did done
| can could able | must has-to | large larger largest big bigger biggest | small smaller smallest little | quick
quickly fast faster rapid rapidly | about approximately roughly around nearly almost some | often frequently usually
typically commonly | company firm business enterprise corporation | people persons inhabitants residents | child
children | man men | woman women | end ends ended finish finishes finished complete completes completed conclude
concluded | open opens opened | close closes closed shut shuts | stop stops stopped halt halted cease ceased | allow
allows allowed permit permits permitted let lets enable enables enabled | forbid forbids forbade forbidden prohibit
prohibited ban banned | help helps helped assist assists assisted aid aids aided | try tries tried attempt attempts
attempted | change changes changed modify modifies modified alter altered | remove removes removed delete deletes
deleted evict evicts evicted | return returns returned | error errors failure failures | default defaults standard |
new fresh | whole entire complete | price prices cost costs | several multiple many | each every | year years annual
annually yearly | month months monthly | day days daily | km kilometre kilometres kilometer kilometers | m metre
metres meter meters | kg kilogram kilograms kilogramme | percent per-cent | cm centimetre centimetres centimeter | mm
millimetre millimetres | s sec second seconds | min minute minutes | h hour hours | ms millisecond milliseconds | млрд
миллиард миллиарда миллиардов | млн миллион миллиона миллионов | bn billion billions | mln million millions | mrd
milliarde milliarden | mio millionen | crash crashes crashed accident accidents collision | mg milligram milligrams
milligramm | co2 carbon | kwh kilowattstunden kilowatt-hours | ceo executive | share shares stock stocks | eur euro
euros € | usd dollar dollars us$ | gbp pound pounds | kb kilobyte kilobytes | mb megabyte megabytes | gb gigabyte
gigabytes | france french français | spain spanish | denmark danish danes | poland polish | netherlands dutch holland
| britain british uk | england english | wales welsh | scotland scottish | ireland irish | turkey turkish türkiye |
sweden swedish | finland finnish | greece greek | switzerland swiss | portugal portuguese | norway norwegian | germany
german | china chinese | czechia czech | usa us american america | russia russian | ukraine ukrainian | belgium
belgian | hungary hungarian | israel israeli | iraq iraqi | км километр километра километров километры | м метр метра
метров | руб рубль рубля рублей | г год году года годах | тыс тысяч тысячи тысяча | построен построил построена
построено | начал начался началась началось | стал стала стали был была было были | jahr jahre jahren | stadt städte
städten | haus häuser häusern | land länder ländern | liegt lag gelegen | begann beginnt begonnen | übernimmt übernahm
übernommen trägt trug getragen | sinkt sank gesunken | steigt stieg gestiegen | wächst wuchs gewachsen wachsen
| evidence sign signs indication indications proof
"""


def _by_word() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for family in _FAMILIES.split("|"):
        members = family.split()
        for word in members:
            table[word] = (*table.get(word, ()), *(other for other in members if other != word))
    return table


RELATIVES = _by_word()
