"""Opposite things in words that numbers, names and negations do not show."""

from __future__ import annotations

from tests.support.cases import for_each
from tests.support.contradictions import cite

from modules.llm_platform.domain.citations.checker import CitationChecker
from modules.llm_platform.domain.dtos.source_dtos import Source

COUNCIL = "Der Stadtrat beschloss am 4. März das Budget. Jonas Weber stimmte dagegen. Anna Roth stimmte dafür."
POSITIONS = "Of the 90 positions, 74 are filled. Twelve candidates are being interviewed."
PLANT = (
    "The opening of the plant was planned for 14 May. It has been moved to 2 September. The budget of 14 million stays."
)
BONUS = "Employees receive a bonus of 600 euros once, after the probation period. The annual leave is 28 days."
NOTICE = "During the probation period the notice period is two weeks. After the probation period it is three months."
TICKETS = (
    "Members may cancel until 30 June. Only members over 65 travel free. All tickets before 9 o'clock cost 4 euros."
)
UNION = "公司支持该提案，但工会反对。会议于五月举行。"
UNEMPLOYMENT = "2023年失业率为百分之一点五。出口增长了百分之十二。"
LEASE = (
    "The lease runs for at least three years. Heating costs up to 150 euros. It covers breakage, but no water damage."
)
SALES = "Sales grew by 12 percent in the north and fell by 4 percent in the south. The north is now the largest region."
OFFICE = "Le bureau ouvre à 8 heures et ferme à 17 heures."
RELEASE = "Version 3.2 removes the option `--fast`. It adds support for Windows."
STATIONS = (
    "| City | Average COP | Failures |\n|---|---|---|\n| Graz | 3.6 | 0 |\n| Tromsø | 2.9 | 5 |\n| Lyon | 3.9 | 1 |"
)

PETS = "The tenants must not smoke. They may keep one cat, but no dog."
WINTER = "Der Winterdienst der Siedlung wird nicht mehr von den Mietern, sondern von der Firma Kessler übernommen."
LESSONS = "Adults can book private lessons with our head coach at £32 for half an hour."
RATES = "Lessons for adults cost £32 for half an hour and £60 an hour."
PRESENT = "Present: Judith Farrow (chair), Colin Mbeki (treasurer), Wendy Sharpe (secretary), Tariq Aziz."
TENANCY = "This agreement is between Mrs Ingrid Halloran (the landlord) and Mr Okafor and Ms Tranter (the tenants)."

SEATS = "| Room | Seats | Floor |\n|---|---|---|\n| Oak room | one hundred | 2 |\n| Ash room | 40 | 1 |"
VISITORS = "| {} | 2019 | 2020 |\n|---|---|---|\n| Oak tower | 512 | 814 |\n| Ash tower | 300 | 411 |"


@for_each(
    ("language", "text", "sentence", "claimed", "found"),
    [
        ("de", COUNCIL, "Jonas Weber stimmte für das Budget.", "für", "dagegen"),
        ("de", COUNCIL, "Anna Roth stimmte gegen das Budget.", "gegen", "dafür"),
        ("en", "The committee voted against the merger.", "The committee voted for the merger.", "for", "against"),
        ("en", POSITIONS, "All positions are filled.", "All", "74"),
        ("en", POSITIONS, "Every position is filled.", "Every", "74"),
        ("en", "After 3 rounds, 74 of the 90 positions are filled.", "All positions are filled.", "All", "74"),
        ("en", "74 (82 %) of the 90 positions are filled.", "All positions are filled.", "All", "74"),
        ("en", "After 3 rounds, of the 90 positions, 74 are filled.", "All positions are filled.", "All", "74"),
        ("zh", "会议后公布计划，员工很高兴。", "会议前公布计划。", "前", "后"),
        ("en", "Most of the samples were contaminated.", "All of the samples were contaminated.", "All", "Most"),
        ("en", TICKETS, "All members travel free.", "All", "Only"),
        ("en", PLANT, "The plant opens on 14 May.", "May", "September"),
        ("en", BONUS, "Employees receive a bonus of 600 euros a year.", "year", "once"),
        ("en", BONUS, "Employees receive a bonus of 600 euros every month.", "month", "once"),
        ("en", NOTICE, "After the probation period the notice period is two weeks.", "After", "During"),
        ("en", TICKETS, "Members may cancel after 30 June.", "after", "until"),
        ("en", TICKETS, "Tickets after 9 o'clock cost 4 euros.", "after", "before"),
        ("zh", UNION, "工会支持该提案。", "支持", "反对"),
        ("en", LEASE, "The lease runs for at most three years.", "most", "least"),
        ("en", LEASE, "Heating costs at least 150 euros.", "least", "up"),
        ("en", LEASE, "It covers water damage.", "It covers water damage.", "no"),
        ("en", SALES, "Sales grew by 12 percent in the south.", "12", "4"),
        ("en", LESSONS, "Lessons for adults cost £32 an hour.", "hour", "half"),
        ("en", RATES, "A lesson for adults costs £32 an hour.", "hour", "half"),
        ("en", "Python only supports coding.", "Python supports many, not only coding.", "only", "only"),
        (
            "en",
            "The course does not take place on Monday but on Tuesday.",
            "It takes place on Monday.",
            "It takes place on Monday.",
            "not",
        ),
        (
            "en",
            "The kitchen has not been painted yet; the hall has.",
            "The kitchen was painted.",
            "The kitchen was painted.",
            "not",
        ),
        ("en", "No dogs, cats or birds are allowed.", "Cats are allowed.", "Cats are allowed.", "No"),
        (
            "en",
            "There is no kettle, toaster or fridge in the kitchen.",
            "There is a toaster.",
            "There is a toaster.",
            "no",
        ),
        (
            "en",
            "It is open every day but not in winter or on holidays.",
            "It is open on holidays.",
            "It is open on holidays.",
            "not",
        ),
        ("de", "Er gilt nicht für Besucher, Gäste und Kinder.", "Er gilt für Gäste.", "Er gilt für Gäste.", "nicht"),
        (
            "en",
            "The course was to be held in May; it does not take place.",
            "The course is held in May.",
            "The course is held in May.",
            "not",
        ),
        ("en", "Coffee is not free; tea is free.", "Coffee is free.", "Coffee is free.", "not"),
        ("en", "Dogs are not allowed, but cats are.", "Dogs are allowed.", "Dogs are allowed.", "not"),
        (
            "de",
            "Die Praxis ist dienstags, aber nicht montags geöffnet.",
            "Die Praxis ist montags geöffnet.",
            "Die Praxis ist montags geöffnet.",
            "nicht",
        ),
        ("en", PRESENT, "Wendy is the treasurer.", "treasurer", "secretary"),
        ("en", "The plan was adopted with three votes against.", "Everyone voted for it.", "Everyone", "against"),
        (
            "de",
            "Der Antrag wurde mit zwei Gegenstimmen angenommen.",
            "Der Antrag wurde einstimmig angenommen.",
            "einstimmig",
            "Gegenstimmen",
        ),
        ("en", TENANCY, "Mrs Halloran is the tenant.", "tenant", "the landlord"),
        ("en", "It can be passed to a new owner once.", "It can be passed to a new owner twice.", "twice", "once"),
        ("en", PETS, "The tenants may keep a dog but not a cat.", "dog", "no dog"),
        (
            "en",
            "The floor will be sanded but not replaced.",
            "The floor is replaced, not sanded.",
            "replaced",
            "not replaced",
        ),
        ("de", WINTER, "Den Winterdienst übernehmen die Mieter der Siedlung.", "Mieter", "Firma Kessler"),
        ("en", SALES, "Sales fell by 4 percent in the north.", "fell", "grew"),
        ("fr", OFFICE, "Le bureau ouvre à 17 heures.", "17", "8"),
        ("en", RELEASE, "Version 3.2 removes support for Windows.", "removes", "adds"),
        ("zh", UNEMPLOYMENT, "失业率为百分之五。", "五", "一点五"),
        ("en", STATIONS, "Graz had an average COP of 2.9.", "2.9", "3.6"),
        ("en", STATIONS, "Lyon had 5 failures.", "5", "1"),
        ("en", VISITORS.format(""), "The Oak tower had 613 visitors in 2020.", "613", "814"),
        ("en", VISITORS.format("Name"), "The Oak tower had 613 visitors in 2020.", "613", "814"),
        ("en", VISITORS.format("Tower"), "The Oak tower had 613 visitors in 2020.", "613", "814"),
        ("en", VISITORS.format(r"Tower \| wall"), "The Oak tower had 613 visitors in 2020.", "613", "814"),
    ],
)
def test_an_opposite_refutes_the_sentence(language: str, text: str, sentence: str, claimed: str, found: str) -> None:
    """The difference names both words."""
    citation = cite(sentence, text, language)
    assert citation.verdict == "unsupported"
    assert citation.difference is not None
    mine, theirs = citation.difference.claimed, citation.difference.found
    assert sentence[mine.start : mine.end] == claimed
    assert text[theirs.start : theirs.end].startswith(found)


@for_each(
    ("language", "text", "sentence"),
    [
        ("de", COUNCIL, "Jonas Weber stimmte gegen das Budget."),
        ("en", POSITIONS, "74 of the 90 positions are filled."),
        ("en", "| Anna Smith | two cats | 7 dogs |\n| Smith | 3 cats | 1 dog |", "Anna Smith has 2 cats."),
        ("en", "| Main Hall | a dozen chairs | yes |\n| Hall | 60 chairs | no |", "The main hall has 12 chairs."),
        ("en", SEATS, "The Oak room seats 100 people."),
        ("en", "All 90 of the 90 positions are filled.", "All positions are filled."),
        ("en", PLANT, "The opening of the plant was moved to 2 September."),
        ("en", BONUS, "Employees receive a bonus of 600 euros once."),
        ("en", NOTICE, "During the probation period the notice period is two weeks."),
        ("en", "The table is merged until after the next update.", "The table is merged until the next update."),
        ("en", "The fee is 50 euros a year, paid once.", "The fee is 50 euros a year."),
        ("zh", UNION, "公司支持该提案。"),
        ("en", LEASE, "The lease runs for at least three years."),
        ("en", LEASE, "It covers breakage."),
        ("en", SALES, "Sales grew by 12 percent in the north."),
        ("en", SALES, "Sales grew by 12 percent in the north and fell by 4 percent in the south."),
        ("fr", OFFICE, "Le bureau ferme à 17 heures."),
        ("en", PETS, "They may keep one cat but no dog."),
        ("en", "The meeting is not on Monday but on Tuesday.", "The meeting is on Tuesday."),
        ("en", "The course does not take place on Monday but on Tuesday.", "The course takes place on Tuesday."),
        ("fr", "Le cours n'a pas lieu le lundi mais le mardi.", "Le cours a lieu le mardi."),
        ("de", "Die Probe beginnt nicht um 20 Uhr, sondern um 19 Uhr im Saal.", "Die Probe beginnt um 19 Uhr im Saal."),
        ("en", "The snow is no longer cleared by the tenants but by the firm.", "The snow is cleared by the firm."),
        ("en", "The snow is cleared by the firm, not by the tenants.", "The snow is cleared by the firm."),
        ("en", "The keys are no longer with Tom; they are with Anna.", "The keys are with Anna."),
        ("de", "Nicht nur die Pfleger, sondern auch die Ärzte streiken.", "Die Pfleger und die Ärzte streiken."),
        ("en", "We visited Paris (France) and Rouen (Normandy).", "Rouen is in France."),
        ("en", "Aspirin (Bayer) and Ibuprofen (painkiller) help.", "Aspirin is a painkiller."),
        (
            "en",
            "Anna Berg (chair) and Ole Hansen (treasurer) met; then Anna became treasurer.",
            "Anna is the treasurer.",
        ),
        ("en", "She won the cup once in 2019 and once in 2021.", "She won the cup twice."),
        ("es", "No sólo los médicos, sino también los enfermeros hacen huelga.", "Los médicos hacen huelga."),
        ("es", "La reunión no es el lunes, sino el martes.", "La reunión es el martes."),
        ("en", "Dogs are not allowed, but cats are.", "Cats are allowed."),
        ("de", "Die Praxis ist dienstags, aber nicht montags geöffnet.", "Die Praxis ist dienstags geöffnet."),
        ("de", "Das Zimmer wird ohne Frühstück vermietet.", "Das Zimmer wird vermietet."),
        ("de", WINTER, "Der Winterdienst wird in der Siedlung nicht mehr von den Mietern übernommen."),
        ("de", WINTER, "Der Winterdienst der Siedlung wird von der Firma Kessler übernommen."),
        ("en", LESSONS, "Private lessons for adults cost £32 for half an hour."),
        ("en", PRESENT, "Wendy Sharpe is the secretary."),
        ("en", "Ana Ruiz (chair and treasurer) and Ben Cole (chair) met.", "Ana Ruiz is the chair."),
        ("en", "The line joins Paris (France), Lyon and Geneva (Switzerland).", "Lyon is in France."),
        ("en", "The bins are emptied once a week, and twice in summer.", "The bins are emptied twice in summer."),
        ("en", RELEASE, "Version 3.2 adds support for Windows."),
        ("zh", UNEMPLOYMENT, "失业率为百分之一点五。"),
        ("en", STATIONS, "Graz had an average COP of 3.6."),
        ("en", STATIONS, "Tromsø had 5 failures."),
    ],
)
def test_a_sentence_on_the_same_side_is_supported(language: str, text: str, sentence: str) -> None:
    """Also where the source has the other side in another sentence, or both."""
    assert cite(sentence, text, language).verdict == "supported"


@for_each("code", ["`A`", "A", "`call()`", "see Ole Hansen"])
def test_a_bracket_before_a_marker_ends_no_sentence(code: str) -> None:
    text = "The gate is red. The wall is blue."
    source = Source(index=1, title="", url="https://example.org/", text=text)
    answer = f"The gate is red ({code}) [1]. The wall is blue ({code}) [1]."
    citations = CitationChecker((source,), "en").check(answer).citations
    assert [answer[citation.start : citation.end] for citation in citations] == [
        f"The gate is red ({code})",
        f"The wall is blue ({code})",
    ]


@for_each(
    ("text", "sentence", "finding"),
    [
        (
            "Cancelling is free until 14 March; after that half the fee is due.",
            "Half the fee is due after 14 March.",
            None,
        ),
        (
            "Cancelling is free until 14 March; after that half the fee is due.",
            "Cancelling is free after 14 March.",
            "contradicts",
        ),
        (
            "Die Absage ist bis zum 14. März frei, danach zahlt man die Hälfte.",
            "Nach dem 14. März zahlt man die Hälfte.",
            None,
        ),
    ],
)
def test_what_holds_after_that_is_not_contradicted(text: str, sentence: str, finding: str | None) -> None:
    assert cite(sentence, text, "de" if "danach" in text else "en").finding == finding
