"""A scripted web in which each page leads to the next, the last one only by a link.

A report over it makes two further rounds.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from dataclasses import dataclass, field

from tests.support.loopback_upstream import Exchange
from tests.support.report_upstream import Upstream
from tests.support.report_world import ReportModel

from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest
from modules.llm_platform.domain.dtos.report_dtos import LLMStage

QUESTION = "Which explorer first saw the waterfall of the country where the Bubye River is found?"
PLANNED = ("Where is the Bubye River found?", "Which explorer saw a waterfall first?")
FURTHER = {"Victoria Falls": "Victoria Falls explorer", "Zimbabwe": "Zimbabwe waterfall"}  # by a word of the prompt
MAX_DELAY_S = 0.05
TAGS = re.compile("<[^>]*>")
NO_QUERY = "\0"  # no search finds such a page
LINKED = 3  # number of the page that only a link leads to
FILLER = "The text of this page goes on for a while, so that it has enough words to be taken for the content of a page."
# The word of a query that finds each page, its title, and its text. The pages are HTML, and are read without a service.
PAGES = (
    ("", "Bubye River", "The Bubye River is found in Zimbabwe. It flows into the Limpopo."),
    (
        "zimbabwe",
        "Victoria Falls",
        "Victoria Falls is the waterfall of the country Zimbabwe. It is on the Zambezi. "
        f"Read about <a href='{LINKED}'>David Livingstone</a>.",
    ),
    ("explorer", "Explorers of Africa", "Several people explored the rivers of Africa between 1790 and 1890."),
    (NO_QUERY, "David Livingstone", "David Livingstone was the explorer who first saw Victoria Falls, in 1855."),
    *(
        ("", f"{name} Brook", f"The {name} Brook is a small stream. Nobody explored it.")
        for name in (
            "Alder",
            "Birch",
            "Cedar",
            "Dogwood",
            "Elm",
            "Fir",
            "Gorse",
        )
    ),
)


class ChainModel(ReportModel):
    """Plans two questions, and in a further round asks for what the last page named."""

    def __init__(self) -> None:
        super().__init__(
            text="The Bubye River is in Zimbabwe [1]. David Livingstone was there first to see the waterfall [2]."
        )

    def _answer(self, stage: LLMStage, request: LLMRequest) -> str:
        prompt = request.messages[-1].content
        if stage == "plan":
            return "\n".join(f"ПОДЗАПРОС: {question}" for question in PLANNED)
        if stage == "queries" and "Topic: " not in prompt:
            return next((f"Query: {query}" for word, query in FURTHER.items() if word in prompt), "Query: none")
        return super()._answer(stage, request)


@dataclass
class ChainUpstream(Upstream):
    """SearXNG, the reader and the model of this web; `begun` is set with the first request, at the time `began`.

    After an answer of the kind `silent_after` nobody is answered any more. The model's call of a further round is a "round".
    """

    silent_after: str = ""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    began: float = 0.0
    _model: ReportModel = field(default_factory=ChainModel)

    async def handle(self, exchange: Exchange) -> None:
        await super().handle(exchange)
        if self.silent_after and any(name.startswith(self.silent_after) for name in self.answered):
            self.silent_from = 0
            self.reached.set()

    async def _answer(self, exchange: Exchange) -> tuple[str, bytes, str]:
        self.begun.set()
        self.began = self.began or asyncio.get_running_loop().time()
        await asyncio.sleep(random.uniform(0, MAX_DELAY_S))  # answers come in any order
        if exchange.path.startswith("/search"):
            query = exchange.form["q"]
            site = f"http://{exchange.headers['host']}/pages"
            results = [
                {"url": f"{site}/{number}", "title": title, "content": TAGS.sub("", text)}
                for number, (word, title, text) in enumerate(PAGES)
                if word in query.casefold()
            ]
            found = {"query": query, "results": results, "unresponsive_engines": []}
            return f"search {query}", json.dumps(found).encode(), "application/json"
        if exchange.path.startswith("/pages/"):
            number = int(exchange.path.rpartition("/")[2])
            _, title, text = PAGES[number]
            html = f"<html><title>{title}</title><body><main><p>{text} {title} has a page. {FILLER}</p></main></body></html>"
            return f"read {number}", html.encode(), "text/html"
        name, body, kind = await super()._answer(exchange)
        is_of_round = name.startswith("queries") and "Topic: " not in exchange.json["messages"][-1]["content"]
        return name.replace("queries", "round") if is_of_round else name, body, kind
