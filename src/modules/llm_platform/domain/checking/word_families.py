"""Words that say the same and do not look alike: irregular forms, countries and their adjectives, units, plain synonyms.

Regular forms need no table (`evidence.is_form`). Kept short on purpose: each family must hold in any text.
"""

from __future__ import annotations

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
