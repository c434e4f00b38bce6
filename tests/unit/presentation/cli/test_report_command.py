"""`research --depth report`: its options, the plan that a person sees, the store, the files beside the answer."""

from __future__ import annotations

import asyncio
import io
import json
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.unit.presentation.cli.fakes import ANSWER, PLAN, PLANNER, SENTENCE, FakePlatform, Terminal, wiring
from tests.unit.presentation.cli.test_commands import Ended

from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest
from modules.llm_platform.domain.dtos.research_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.exceptions import PriceUnknownError, WebSearchConnectionError
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.presentation.cli.setup import Wiring

Command = Callable[..., Ended]
QUESTION = ("research", "What is it?")
REPORT = (*QUESTION, "--depth", "report")
INTERRUPTED = KeyboardInterrupt()
FINISHED = datetime(2026, 11, 20, 10, 30, tzinfo=UTC)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Call it; `typed` is what a person at the terminal types, None where standard input is a pipe."""

    def call(
        *arguments: str, platform: FakePlatform | None = None, doors: Wiring | None = None, typed: str | None = None
    ) -> Ended:
        terminal = Terminal()
        if typed is not None:
            monkeypatch.setattr(sys, "stdin", Terminal(typed))
            monkeypatch.setattr(sys, "stderr", terminal)
        else:
            monkeypatch.setattr(sys, "stdin", io.StringIO())
        code = run(arguments, doors or wiring(platform or FakePlatform(), model=True))
        said = capsys.readouterr()
        return Ended(code, said.out, terminal.getvalue() or said.err)

    monkeypatch.setenv("READERS", "direct")  # else there is a word on who sees the addresses
    return call


def answer_with(**metadata: object) -> ResearchResponse:
    return ANSWER.model_copy(update={"depth": "report", "metadata": ANSWER.metadata.model_copy(update=metadata)})


class TestOptions:
    def test_options_reach_the_service(self, command: Command, tmp_path: Path) -> None:
        """Every option of a report is a field of its request."""
        (tmp_path / "plan.txt").write_text("1. What is a solar sail?\n2. Who built one?\n")
        platform = FakePlatform()
        options = (
            "--plan plan.txt --url https://a.example/x --url https://b.example/ --max-llm-calls 0 --max-cost-usd 0.5"
            " --max-seconds 60 --fresh --instructions"
        )
        assert command(*REPORT, *options.split(), "For children.", platform=platform).code == 0
        (request,) = platform.research.requests
        assert request.model_dump(include=request.model_fields_set) == {
            "query": "What is it?", "depth": "report", "plan": ("What is a solar sail?", "Who built one?"),
            "urls": ("https://a.example/x", "https://b.example/"), "max_llm_calls": 0, "max_cost_usd": 0.5,
            "max_seconds": 60, "fresh": True, "instructions": "For children.", "omit_raw": False,
        }  # fmt: skip
        assert platform.research.planned == []

    def test_nothing_is_asked_in_a_pipe(self, command: Command) -> None:
        """Without a person the platform makes the plan on its way."""
        platform = FakePlatform()
        assert command(*REPORT, platform=platform).err == ""
        assert platform.research.requests[0].plan is None
        assert platform.research.planned == []

    @pytest.mark.parametrize(
        "option",
        ["--plan plan.txt", "--url https://a.example/", "--max-llm-calls 0", "--max-cost-usd 1", "--max-seconds 9",
         "--fresh", "--instructions short"],
    )  # fmt: skip
    @pytest.mark.parametrize("depth", ["", "--depth deep"])
    def test_a_wish_without_a_report_is_wrong_use(self, option: str, depth: str, command: Command, tmp_path: Path) -> None:
        """A limit that would bound nothing, a page that nobody would read: the option and what to add."""
        (tmp_path / "plan.txt").write_text("What is a solar sail?")
        platform = FakePlatform()
        ended = command(*QUESTION, *depth.split(), *option.split(), platform=platform)
        assert (ended.code, ended.out, platform.research.requests) == (2, "", [])
        assert f"{option.split()[0]}: belongs to a report: add --depth report, or leave it out" in ended.err

    @pytest.mark.parametrize(
        ("option", "says"),
        [
            ("--max-llm-calls -1", "--max-llm-calls: must be greater than or equal to 0"),
            ("--max-cost-usd nan", "--max-cost-usd: must be a finite number"),
            ("--max-seconds 0", "--max-seconds: must be greater than 0"),
            ("--url ftp://a.example/", "--url: number 1 must begin with http:// or https://"),
            ("--url https://a.example/ --url b", "--url: number 2 must begin with http:// or https://"),
            ("--plan gone.txt", "'--plan': file 'gone.txt' does not exist"),
            ("--plan short.txt", "--plan: number 2 must have at least 3 characters"),
            ("--plan long.txt", "--plan: must have at most 10 items"),
            ("--csl sources.txt", "--csl: sources.txt must end in .json"),
            ("--csl nowhere/a.json", "--csl: the folder"),
            ("--csl a.json --output a.json", "--csl: a.json is where --output goes"),
            ("--plan-only --output a.md", "--output: there is no answer to write"),
            ("--plan-only --csl a.json", "--csl: there is no answer to write"),
            ("--plan-only --depth deep", "--plan-only: a plan belongs to a report, and --depth deep asks for none"),
        ],
    )
    def test_wrong_use_names_the_option_and_asks_nobody(
        self, option: str, says: str, command: Command, tmp_path: Path
    ) -> None:
        """Exit code 2, the option and what it takes, before anything is asked or spent."""
        (tmp_path / "short.txt").write_text("What is a solar sail?\nno\n")
        (tmp_path / "long.txt").write_text("".join(f"Question number {number}?\n" for number in range(11)))
        platform = FakePlatform()
        ended = command(*QUESTION, *(() if "--depth" in option else ("--depth", "report")), *option.split(), platform=platform)
        assert (ended.code, ended.out, platform.research.requests) == (2, "", [])
        assert says in " ".join(ended.err.split())

    def test_a_limit_that_cannot_be_kept_is_wrong_use(self, command: Command) -> None:
        """A budget in dollars without prices is the caller's to mend."""
        ended = command(*REPORT, platform=FakePlatform(answer=PriceUnknownError()))
        assert ended.code == 2
        assert "LLM_PRICES" in ended.err

    @pytest.mark.parametrize(
        ("options", "sources"),
        [("", None), ("--sources web", ("web",)), ("--documents .", ("documents",)), ("--documents . --sources web", ("web",))],
    )
    def test_given_pages_alone_or_beside_a_search(
        self, options: str, sources: tuple[str, ...] | None, command: Command
    ) -> None:
        """Addresses are all that is read, unless sources are named too; a folder is mixed in."""
        platform = FakePlatform()
        assert command(*REPORT, "--url", "https://a.example/", *options.split(), platform=platform).code == 0
        (request,) = platform.research.requests
        assert ("sources" in request.model_fields_set) == (sources is not None)
        assert sources is None or request.sources == sources


class TestPlanOnly:
    def test_lines_that_can_be_kept_as_a_file(self, command: Command, tmp_path: Path) -> None:
        """A sub-question on each line and nothing else: what `--plan` takes. No depth need be named for it."""
        platform = FakePlatform()
        ended = command(*QUESTION, "--plan-only", "--language", "de", platform=platform)
        assert ended == Ended(0, "\n".join(PLAN.questions) + "\n", "")
        assert platform.research.planned == [PlanRequest(query="What is it?", language="de")]
        assert (platform.research.requests, platform.closed) == ([], True)
        (tmp_path / "plan.txt").write_text(ended.out)
        again = command(*REPORT, "--plan", "plan.txt", platform=platform)
        assert (again.code, platform.research.requests[0].plan) == (0, PLAN.questions)

    def test_json_is_the_http_answer_and_nothing_else(self, command: Command) -> None:
        """What POST /research/plan answers."""
        ended = command(*QUESTION, "--plan-only", "--json")
        assert json.loads(ended.out) == json.loads(PLAN.model_dump_json())

    @pytest.mark.parametrize("as_json", [False, True])
    def test_a_given_plan_is_shown_as_it_is_understood(self, as_json: bool, command: Command, tmp_path: Path) -> None:
        """To look whether a file says what was meant asks nobody."""
        (tmp_path / "plan.txt").write_text("1. What is a solar sail?\n")
        platform = FakePlatform()
        ended = command(*QUESTION, "--plan-only", "--plan", "plan.txt", *["--json"] * as_json, platform=platform)
        shown = json.loads(ended.out)["questions"] if as_json else ended.out.splitlines()
        assert shown == ["What is a solar sail?"]
        assert platform.research.planned == []

    def test_nobody_is_asked_to_go_over_it(self, command: Command) -> None:
        """To print it is all that was wanted, on a terminal too."""
        ended = command(*QUESTION, "--plan-only", typed="")
        assert ended.code == 0
        assert "plan>" not in ended.err

    def test_a_model_that_failed_is_named(self, command: Command) -> None:
        """Beside the plan, on standard error."""
        failed = Degraded(component="plan/llm", reason="llm_timeout: it did not answer in time")
        ended = command(
            *QUESTION, "--plan-only", platform=FakePlatform(plans=(PLAN.model_copy(update={"degraded": (failed,)}),))
        )
        assert (ended.code, ended.err) == (0, "plan/llm: it did not answer in time\n")


class TestGoneOver:
    def test_a_person_sees_the_plan_first(self, command: Command) -> None:
        """On a terminal the sub-questions are shown, and what is left of them after the person is the plan."""
        platform = FakePlatform()
        ended = command(*REPORT, "--language", "en", typed="d 1\na And why?\n\n", platform=platform)
        assert ended.code == 0
        assert platform.research.planned == [PlanRequest(query="What is it?", language="en")]
        (request,) = platform.research.requests
        assert request.plan == (*PLAN.questions[1:], "And why?")
        assert "sources" not in request.model_fields_set
        assert f"  1. {PLAN.questions[0]}" in ended.err

    def test_another_plan_can_be_asked_for(self, command: Command) -> None:
        """The planner is told what is there, with its edits."""
        other = PLAN.model_copy(update={"questions": ("How old is it?",)})
        platform = FakePlatform(plans=(PLAN, other))
        assert command(*REPORT, typed="d 2\nn\nok\n", platform=platform).code == 0
        assert platform.research.planned[1].other_than == (PLAN.questions[0], PLAN.questions[2])
        assert platform.research.requests[0].plan == other.questions

    @pytest.mark.parametrize("typed", ["q\n", ""])
    def test_called_off(self, typed: str, command: Command) -> None:
        """Exit code 130, one line, nothing researched."""
        platform = FakePlatform()
        ended = command(*REPORT, typed=typed, platform=platform)
        assert (ended.code, platform.research.requests) == (130, [])
        assert ended.err.endswith("llm-platform: the report was called off\n")

    @pytest.mark.parametrize("options", ["--yes", "--json", "--plan plan.txt"])
    def test_who_has_decided_is_not_asked(self, options: str, command: Command, tmp_path: Path) -> None:
        """--yes, --json and a given plan go on at once."""
        (tmp_path / "plan.txt").write_text("What is a solar sail?")
        platform = FakePlatform()
        ended = command(*REPORT, *options.split(), typed="", platform=platform)
        assert ended.code == 0
        assert "plan>" not in ended.err
        assert platform.research.planned == []

    @pytest.mark.parametrize("depth", ["shallow", "deep"])
    def test_other_depths_have_nothing_to_go_over(self, depth: str, command: Command) -> None:
        """Only a report is long enough to be worth a question first."""
        assert command(*QUESTION, "--depth", depth, typed="").code == 0

    def test_where_only_the_store_can_answer_nobody_is_asked(self, command: Command) -> None:
        """Offline without documents a finished report is told again, with the plan that it has."""
        platform = FakePlatform()
        ended = command(*REPORT, "--offline", typed="", doors=wiring(platform, order=()))
        assert ended.code == 0
        assert (platform.research.planned, platform.research.requests[0].plan) == ([], None)


class TestAcceptedBefore:
    def test_what_was_accepted_is_shown_again(self, command: Command) -> None:
        """The report ended early after the person had edited its plan: the same command shows that plan, says so, and
        asks no model for another one.
        """
        platform = FakePlatform(answer=WebSearchConnectionError())
        assert command(*REPORT, typed="d 1\na And why?\n\n", platform=platform).code == 1
        edited = (*PLAN.questions[1:], "And why?")
        again = FakePlatform(plans=())
        again.research.accepted = platform.research.accepted
        ended = command(*REPORT, typed="\n", platform=again)
        assert (ended.code, again.research.planned, again.research.requests[0].plan) == (0, [], edited)
        assert "This is the plan that you accepted on 2026-11-2" in ended.err
        assert "n makes a new one" in ended.err

    def test_a_new_one_can_be_asked_for(self, command: Command) -> None:
        """`n` asks the planner for other sub-questions, and what is accepted then is what is remembered."""
        platform = FakePlatform()
        asked = PlanRequest(query="What is it?")
        asyncio.run(platform.research.accept_plan(asked, ("Who made it?",)))
        assert command(*REPORT, typed="n\n\n", platform=platform).code == 0
        assert platform.research.planned == [asked.model_copy(update={"other_than": ("Who made it?",)})]
        assert platform.research.accepted[asked].questions == PLAN.questions

    def test_fresh_takes_nothing_that_was_kept(self, command: Command) -> None:
        """With --fresh the plan is thought of anew."""
        platform = FakePlatform()
        asyncio.run(platform.research.accept_plan(PlanRequest(query="What is it?"), ("Who made it?",)))
        ended = command(*REPORT, "--fresh", typed="\n", platform=platform)
        assert (ended.code, platform.research.requests[0].plan) == (0, PLAN.questions)
        assert "accepted" not in ended.err

    @pytest.mark.parametrize("options", ["--yes", "--json"])
    def test_who_is_not_asked_has_accepted_nothing(self, options: str, command: Command) -> None:
        """Nothing is remembered of a plan that nobody saw, and nothing of an earlier one is used unseen."""
        platform = FakePlatform()
        asyncio.run(platform.research.accept_plan(PlanRequest(query="What is it?"), ("Who made it?",)))
        assert command(*REPORT, options, typed="", platform=platform).code == 0
        assert platform.research.requests[0].plan is None
        assert [plan.questions for plan in platform.research.accepted.values()] == [("Who made it?",)]


class TestWhatPlanningTakes:
    QUERY = Sent(host=PLANNER, kind="query", requests=2, bytes=240)

    def test_it_stands_in_the_ledger(self, command: Command) -> None:
        """What the plan's model was sent counts with what the report sent, host by host and kind by kind."""
        text = Sent(host=PLANNER, kind="page text", requests=1, bytes=5000)
        platform = FakePlatform(answer=answer_with(sent_to=(self.QUERY, text)))
        shown = command(*REPORT, "--show-sent", typed="\n", platform=platform).out
        assert f"{PLANNER}  query      3 requests, 360 B" in shown
        assert f"{PLANNER}  page text  1 request, 5.0 kB" in shown

    def test_it_counts_against_the_limit(self, command: Command) -> None:
        """Each plan is a call less for the report; once there are none left, plans are made without a model."""
        platform = FakePlatform(plans=(PLAN, PLAN))
        assert command(*REPORT, "--max-llm-calls", "5", typed="n\n\n", platform=platform).code == 0
        assert (len(platform.research.planned), platform.research.requests[0].max_llm_calls) == (2, 3)
        platform = FakePlatform()
        ended = command(*REPORT, "--max-llm-calls", "1", typed="n\n\n", platform=platform)
        assert (len(platform.research.planned), platform.research.requests[0].max_llm_calls) == (1, 0)
        assert "What is it" in ended.err

    def test_it_stands_in_the_account(self, command: Command) -> None:
        """Calls, tokens and dollars of the plans that the person was shown count with those of the report."""
        spent = Spending(calls=1, prompt_tokens=200, completion_tokens=50, cost_usd=0.01)
        plan = PLAN.model_copy(update={"spent": spent})
        platform = FakePlatform(plans=(plan, plan), answer=answer_with(llm_calls=3, tokens_used=1000, cost_usd=0.1))
        shown = command(*REPORT, "--output", "a.json", typed="n\n\n", platform=platform)
        assert shown.code == 0
        told = json.loads(Path("a.json").read_text())["metadata"]
        assert (told["llm_calls"], told["tokens_used"], told["cost_usd"]) == (5, 1500, pytest.approx(0.12))

    def test_a_price_that_nobody_knows_makes_the_sum_unknown(self, command: Command) -> None:
        """Rather than too small."""
        plan = PLAN.model_copy(update={"spent": Spending(calls=1, cost_usd=None)})
        platform = FakePlatform(plans=(plan,), answer=answer_with(llm_calls=3, tokens_used=1000, cost_usd=0.1))
        assert "price not known" in command(*REPORT, typed="\n", platform=platform).out

    def test_dollars_count_against_their_limit(self, command: Command) -> None:
        """What planning cost the report has less; once nothing is left, plans are made without a model."""
        plan = PLAN.model_copy(update={"spent": Spending(calls=1, cost_usd=0.25)})
        platform = FakePlatform(plans=(plan, plan))
        assert command(*REPORT, "--max-cost-usd", "1", typed="n\n\n", platform=platform).code == 0
        assert platform.research.requests[0].max_cost_usd == pytest.approx(0.5)
        platform = FakePlatform(plans=(plan,))
        assert command(*REPORT, "--max-cost-usd", "0.2", typed="n\n\n", platform=platform).code == 0
        assert (len(platform.research.planned), platform.research.requests[0].max_cost_usd) == (1, 0.0)

    @pytest.mark.parametrize("limit", ["--max-llm-calls", "--max-cost-usd"])
    @pytest.mark.parametrize(("options", "typed"), [(REPORT, "\n"), ((*QUESTION, "--depth", "report", "--plan-only"), None)])
    def test_none_means_none(
        self, options: tuple[str, ...], typed: str | None, limit: str, command: Command
    ) -> None:
        """With a limit of 0 the question is taken apart here, and nobody is asked."""
        platform = FakePlatform(plans=())
        ended = command(*options, limit, "0", typed=typed, platform=platform)
        assert ended.code == 0
        assert platform.research.planned == []
        assert "What is it" in ended.out + ended.err


class TestWhatLeaves:
    def test_the_reader_is_named(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where nobody chose one, a line says who sees the addresses of pages, and how to change that."""
        monkeypatch.delenv("READERS")
        ended = command(*REPORT)
        assert ended.code == 0
        assert ended.err.count("\n") == 1
        assert "r.jina.ai" in ended.err
        assert "READERS=direct" in ended.err

    @pytest.mark.parametrize("options", ["--depth report --documents .", "--depth report --offline", "--depth deep"])
    def test_where_no_page_of_the_web_is_read_it_is_not(
        self, options: str, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Documents are read here, and other depths open no page."""
        monkeypatch.delenv("READERS")
        assert command(*QUESTION, *options.split()).err == ""

    def test_given_pages_alone_are_no_search(self, command: Command) -> None:
        """The question goes to no search engine, so nobody is told that it does."""
        doors = wiring(FakePlatform(), order=("ddgs",), model=True)
        assert command(*REPORT, "--url", "https://a.example/", doors=doors).err == ""
        assert "leaves this machine" in command(*REPORT, doors=doors).err


class TestAnswer:
    def test_the_store_is_named_with_its_date(self, command: Command) -> None:
        """An answer that was finished before says when, and how to have a new one; whoever wrote it then."""
        answer = answer_with(stored_at=FINISHED, synthesizer="kimi/kimi-for-coding")
        shown = command(*REPORT, doors=wiring(FakePlatform(answer=answer), model=False)).out
        assert "Note: This is from the store, finished 2026-11-20 10:30 UTC; --fresh researches anew." in shown
        assert "No language model" not in shown

    @pytest.mark.parametrize("suffix", ["md", "html"])
    def test_a_file_names_the_store_too(self, suffix: str, command: Command, tmp_path: Path) -> None:
        """Who reads the file later knows how old it is."""
        answer = answer_with(stored_at=FINISHED)
        assert command(*REPORT, "--output", f"a.{suffix}", platform=FakePlatform(answer=answer)).code == 0
        assert "finished 2026-11-20 10:30 UTC" in (tmp_path / f"a.{suffix}").read_text()

    def test_what_was_left_out_is_told(self, command: Command) -> None:
        """What a budget left out stands among the notes, what found no room in the last line."""
        left = Degraded(component="summarize", reason="llm_budget: 2 calls were left out: max_llm_calls is used up")
        answer = answer_with(truncated_tokens=1200).model_copy(update={"degraded": (left,)})
        shown = command(*REPORT, platform=FakePlatform(answer=answer)).out
        assert "Note: summarize: 2 calls were left out: max_llm_calls is used up" in shown
        assert "1200 tokens of the sources found no room" in shown.splitlines()[-1]

    def test_sections_stay_sections_in_a_page(self, command: Command, tmp_path: Path) -> None:
        """The headings of a report are headings of the file."""
        answer = ANSWER.model_copy(update={"synthesis": f"Intro.\n\n## What is it?\n\n{SENTENCE} [1]\n", "citations": ()})
        command(*REPORT, "--output", "a.html", platform=FakePlatform(answer=answer))
        assert "<h2>What is it?</h2>" in (tmp_path / "a.html").read_text()


class TestBesides:
    SENT = Sent(host="api.example.org", kind="page text", requests=3, bytes=51_200)

    def test_what_was_sent_stands_below_the_answer(self, command: Command) -> None:
        """--show-sent tells host, kind and bytes; without it nothing of it is shown."""
        platform = FakePlatform(answer=answer_with(sent_to=(self.SENT,)))
        shown = command(*QUESTION, "--show-sent", platform=platform).out
        assert shown.index("written by") < shown.index("api.example.org  page text  3 requests, 51.2 kB")
        assert "api.example.org" not in command(*QUESTION, platform=platform).out

    @pytest.mark.parametrize("option", ["--json", "--output=a.md"])
    def test_what_was_sent_stands_beside_what_programs_read(self, option: str, command: Command) -> None:
        """Standard output is the answer alone."""
        platform = FakePlatform(answer=answer_with(sent_to=(self.SENT,)))
        ended = command(*QUESTION, "--show-sent", option, platform=platform)
        assert "api.example.org  page text" in ended.err
        assert (json.loads(ended.out)["depth"] if option == "--json" else ended.out) in ("report", "")

    def test_sources_for_citation_managers(self, command: Command, tmp_path: Path) -> None:
        """--csl writes the sources beside the answer, whatever becomes of that, at any depth."""
        ended = command(*QUESTION, "--csl", "sources.json")
        items = json.loads((tmp_path / "sources.json").read_text())
        assert [item["URL"] for item in items] == [source.url for source in ANSWER.sources]
        assert SENTENCE in ended.out

    def test_a_file_of_sources_is_not_replaced_unasked(self, command: Command, tmp_path: Path) -> None:
        """Before anything is spent."""
        (tmp_path / "sources.json").write_text("mine")
        platform = FakePlatform()
        ended = command(*QUESTION, "--csl", "sources.json", typed="n\n", platform=platform)
        assert (ended.code, platform.research.requests) == (1, [])
        assert (tmp_path / "sources.json").read_text() == "mine"


def test_metadata_of_a_report_is_in_the_json(command: Command) -> None:
    """Plan, topic, date and ledger, as the HTTP answer has them."""
    answer = answer_with(plan=("a?",), topic="what-is-it-1", stored_at=FINISHED, sent_to=(TestBesides.SENT,))
    told = json.loads(command(*REPORT, "--json", platform=FakePlatform(answer=answer)).out)["metadata"]
    assert ResearchMetadata.model_validate(told) == answer.metadata


class TestInterrupted:
    def test_the_command_that_goes_on_is_named(self, command: Command) -> None:
        """Its words as they were typed, quoted for a shell; --fresh would begin anew, so it is left out."""
        wish = ("--instructions", "it's short")
        ended = command(*REPORT, *wish, "--fresh", platform=FakePlatform(answer=INTERRUPTED))
        assert ended.code == 130
        assert ended.err.splitlines()[-2:] == [
            "Interrupted. What was finished is stored. To go on from there:",
            f"llm-platform research 'What is it?' --depth report {shlex.join(wish)}",
        ]

    @pytest.mark.parametrize(("typed", "named"), [("What is it?", "'What is it?'"), ("-1 or 1?", "-- '-1 or 1?'")])
    def test_a_question_of_standard_input_is_named_too(
        self, typed: str, named: str, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was piped in, or typed when asked for, is no longer there."""
        monkeypatch.setattr(Console, "question", lambda self, prompt, *, ask: typed)
        ended = command("research", "--depth", "report", platform=FakePlatform(answer=INTERRUPTED))
        assert ended.err.splitlines()[-1] == f"llm-platform research --depth report {named}"

    @pytest.mark.parametrize(("arguments", "days"), [(QUESTION, "30"), (REPORT, "0")])
    def test_where_nothing_is_stored_nothing_is_promised(
        self, arguments: tuple[str, ...], days: str, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another depth has no stages, and STORE_TTL_DAYS=0 keeps none."""
        monkeypatch.setenv("STORE_TTL_DAYS", days)
        ended = command(*arguments, platform=FakePlatform(answer=INTERRUPTED))
        assert ended.code == 130
        assert "Interrupted" not in ended.err
