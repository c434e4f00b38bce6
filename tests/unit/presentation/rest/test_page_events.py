"""The page decides on each event of a research run: it shows a step for it, or its script says that it does not."""

from __future__ import annotations

import re

from modules.llm_platform.application.research.events import EVENT_TYPES
from modules.llm_platform.presentation.rest.docs_routes import RESEARCH_FOLDER

QUEUED = "queued"  # the page makes this event itself while a background run waits
STEPS = (RESEARCH_FOLDER / "steps.js").read_text(encoding="utf-8")


def test_the_page_decides_on_every_event() -> None:
    """The switch in steps.js has a case for each registered event and the page's own events, and no others.

    A new event needs a case there that shows a step or returns nothing.
    """
    switch = STEPS.partition("switch (event.type) {\n")[2].partition("\n    }\n")[0]
    cases = re.findall(r'case "(\w+)":', switch)
    assert "default:" not in switch
    assert len(cases) == len(set(cases))
    assert {*EVENT_TYPES, QUEUED} - set(cases) == set(), "page/steps.js lacks a case for these events"
    assert set(cases) - {*EVENT_TYPES, QUEUED} == set(), "page/steps.js has cases for events that do not exist"


def test_no_script_waits_for_an_event_that_is_gone() -> None:
    """Each comparison with the type of an event names one of the registry."""
    for script in RESEARCH_FOLDER.glob("*.js"):
        compared = set(re.findall(r'event\.type === "(\w+)"', script.read_text(encoding="utf-8")))
        assert compared <= {*EVENT_TYPES, QUEUED}, script.name
