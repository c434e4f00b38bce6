"""`research --depth report`: its options, the plan review, the store, and the additional files."""

from __future__ import annotations

import asyncio
import io
import json
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.domain.research.test_long_message import AGENT
from tests.unit.presentation.cli.fakes import ANSWER, PLAN, PLANNER, SENTENCE, Ended, FakePlatform, Terminal, wiring

from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.llm_dtos import Spending
from modules.llm_platform.domain.dtos.report_dtos import PlanRequest
from modules.llm_platform.domain.dtos.sent import Sent
from modules.llm_platform.domain.exceptions import PriceUnknownError, WebSearchConnectionError
from modules.llm_platform.domain.research.long_message import MAX_MESSAGE_CHARS
from modules.llm_platform.presentation.cli.commands.research import deliver_research
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.presentation.cli.output import OutputOptions
from modules.llm_platform.presentation.cli.setup import Wiring

Command = Callable[..., Ended]
QUESTION = ("research", "What is it?")
REPORT = (*QUESTION, "--depth", "report")
INTERRUPTED = KeyboardInterrupt()
FINISHED = datetime(2026, 11, 20, 10, 30, tzinfo=UTC)


class ClosedPipe(io.StringIO):
    """Standard output whose reader has ended."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run the command. `typed` is the terminal input, or None if standard input is a pipe."""

    def call(
        *arguments: str,
        platform: FakePlatform | None = None,
        custom_wiring: Wiring | None = None,
        typed: str | None = None,
    ) -> Ended:
        terminal = Terminal()
        if typed is not None:
            monkeypatch.setattr(sys, "stdin", Terminal(typed))
            monkeypatch.setattr(sys, "stderr", terminal)
        else:
            monkeypatch.setattr(sys, "stdin", io.StringIO())
        code = run(arguments, custom_wiring or wiring(platform or FakePlatform(), model=True))
        message = capsys.readouterr()
        return Ended(code, message.out, terminal.getvalue() or message.err)

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
            "query": "What is it?",
            "depth": "report",
            "plan": ("What is a solar sail?", "Who built one?"),
            "urls": ("https://a.example/x", "https://b.example/"),
            "max_llm_calls": 0,
            "max_cost_usd": 0.5,
            "max_seconds": 60,
            "fresh": True,
            "instructions": "For children.",
            "omit_raw": False,
        }
        assert platform.research.planned == []

    def test_plan_is_not_reviewed_in_a_pipe(self, command: Command) -> None:
        """Without a person the platform makes the plan on its way."""
        platform = FakePlatform()
        assert command(*REPORT, platform=platform).err == ""
        assert platform.research.requests[0].plan is None
        assert platform.research.planned == []

    @pytest.mark.parametrize(
        "option",
        [
            "--plan plan.txt",
            "--url https://a.example/",
            "--max-llm-calls 0",
            "--max-cost-usd 1",
            "--max-seconds 9",
            "--fresh",
        ],
    )
    @pytest.mark.parametrize("depth", ["", "--depth deep"])
    def test_report_option_without_a_report_is_wrong_use(
        self, option: str, depth: str, command: Command, tmp_path: Path
    ) -> None:
        """An option without effect is refused. The message names the option and what to add."""
        (tmp_path / "plan.txt").write_text("What is a solar sail?")
        platform = FakePlatform()
        ended = command(*QUESTION, *depth.split(), *option.split(), platform=platform)
        assert (ended.code, ended.out, platform.research.requests) == (2, "", [])
        assert f"{option.split()[0]}: belongs to a report: add --depth report, or leave it out" in ended.err

    @pytest.mark.parametrize(
        ("option", "expected"),
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
            ("--csl a.json --output a.json", "--csl: a.json is also the file of --output"),
            ("--plan-only --output a.md", "--output: cannot be combined with --plan-only"),
            ("--plan-only --csl a.json", "--csl: cannot be combined with --plan-only"),
            ("--plan-only --depth deep", "--plan-only: only a report has a plan: leave out --depth deep"),
        ],
    )
    def test_wrong_use_names_the_option(self, option: str, expected: str, command: Command, tmp_path: Path) -> None:
        """Wrong use exits with 2 and names the option and its valid values, before anything is asked or spent."""
        (tmp_path / "short.txt").write_text("What is a solar sail?\nno\n")
        (tmp_path / "long.txt").write_text("".join(f"Question number {number}?\n" for number in range(11)))
        platform = FakePlatform()
        ended = command(
            *QUESTION, *(() if "--depth" in option else ("--depth", "report")), *option.split(), platform=platform
        )
        assert (ended.code, ended.out, platform.research.requests) == (2, "", [])
        assert expected in " ".join(ended.err.split())

    def test_cost_limit_without_prices_is_wrong_use(self, command: Command) -> None:
        """A budget in dollars without prices is the caller's to mend."""
        ended = command(*REPORT, platform=FakePlatform(answer=PriceUnknownError()))
        assert ended.code == 2
        assert "LLM_PROVIDERS" in ended.err

    @pytest.mark.parametrize(
        ("options", "sources"),
        [
            ("", None),
            ("--sources web", ("web",)),
            ("--documents .", ("documents",)),
            ("--documents . --sources web", ("web",)),
        ],
    )
    def test_pages_are_read_alone_unless_sources_are_named(
        self, options: str, sources: tuple[str, ...] | None, command: Command
    ) -> None:
        """Addresses are all that is read, unless sources are named too; a folder is mixed in."""
        platform = FakePlatform()
        assert command(*REPORT, "--url", "https://a.example/", *options.split(), platform=platform).code == 0
        (request,) = platform.research.requests
        assert ("sources" in request.model_fields_set) == (sources is not None)
        assert sources is None or request.sources == sources


class TestPlanOnly:
    def test_plan_only_prints_lines_that_plan_reads(self, command: Command, tmp_path: Path) -> None:
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
    def test_plan_only_prints_the_plan_of_a_file(self, as_json: bool, command: Command, tmp_path: Path) -> None:
        """--plan-only with a file prints the parsed plan without calling a model."""
        (tmp_path / "plan.txt").write_text("1. What is a solar sail?\n")
        platform = FakePlatform()
        ended = command(*QUESTION, "--plan-only", "--plan", "plan.txt", *["--json"] * as_json, platform=platform)
        printed = json.loads(ended.out)["questions"] if as_json else ended.out.splitlines()
        assert printed == ["What is a solar sail?"]
        assert platform.research.planned == []

    def test_plan_only_does_not_prompt(self, command: Command) -> None:
        """To print it is all that was wanted, on a terminal too."""
        ended = command(*QUESTION, "--plan-only", typed="")
        assert ended.code == 0
        assert "plan>" not in ended.err

    def test_plan_only_reports_a_failed_model(self, command: Command) -> None:
        """Beside the plan, on standard error."""
        failed = Degraded(component="plan/llm", reason="llm_timeout: it did not answer in time")
        ended = command(
            *QUESTION, "--plan-only", platform=FakePlatform(plans=(PLAN.model_copy(update={"degraded": (failed,)}),))
        )
        assert (ended.code, ended.err) == (0, "plan/llm: it did not answer in time\n")


class TestPlanReview:
    def test_plan_is_reviewed_on_a_terminal(self, command: Command) -> None:
        """A terminal shows the sub-questions, and the edited list is the plan."""
        platform = FakePlatform()
        ended = command(*REPORT, "--language", "en", typed="d 1\na And why?\n\n", platform=platform)
        assert ended.code == 0
        assert platform.research.planned == [PlanRequest(query="What is it?", language="en")]
        (request,) = platform.research.requests
        assert request.plan == (*PLAN.questions[1:], "And why?")
        assert "sources" not in request.model_fields_set
        assert f"  1. {PLAN.questions[0]}" in ended.err

    def test_new_plan_excludes_the_current_one(self, command: Command) -> None:
        """The planner receives the current questions with their edits."""
        other = PLAN.model_copy(update={"questions": ("How old is it?",)})
        platform = FakePlatform(plans=(PLAN, other))
        assert command(*REPORT, typed="d 2\nn\nok\n", platform=platform).code == 0
        assert platform.research.planned[1].other_than == (PLAN.questions[0], PLAN.questions[2])
        assert platform.research.requests[0].plan == other.questions

    @pytest.mark.parametrize("typed", ["q\n", ""])
    def test_quitting_the_plan_cancels_the_report(self, typed: str, command: Command) -> None:
        """Exit code 130, one line, nothing researched."""
        platform = FakePlatform()
        ended = command(*REPORT, typed=typed, platform=platform)
        assert (ended.code, platform.research.requests) == (130, [])
        assert ended.err.endswith("llm-platform: the report was cancelled\n")

    @pytest.mark.parametrize("options", ["--yes", "--json", "--plan plan.txt"])
    def test_plan_is_not_reviewed_with_yes_json_or_plan(self, options: str, command: Command, tmp_path: Path) -> None:
        """--yes, --json or a given plan skips the review."""
        (tmp_path / "plan.txt").write_text("What is a solar sail?")
        platform = FakePlatform()
        ended = command(*REPORT, *options.split(), typed="", platform=platform)
        assert ended.code == 0
        assert "plan>" not in ended.err
        assert platform.research.planned == []

    @pytest.mark.parametrize("depth", ["shallow", "deep"])
    def test_other_depths_have_no_plan_review(self, depth: str, command: Command) -> None:
        """Only a report is long enough to be worth a question first."""
        assert command(*QUESTION, "--depth", depth, typed="").code == 0

    def test_no_plan_review_when_only_the_store_can_answer(self, command: Command) -> None:
        """Offline without documents, a stored report is replayed with its plan."""
        platform = FakePlatform()
        ended = command(*REPORT, "--offline", typed="", custom_wiring=wiring(platform, order=()))
        assert ended.code == 0
        assert (platform.research.planned, platform.research.requests[0].plan) == ([], None)


class TestStoredPlan:
    def test_accepted_plan_is_shown_again(self, command: Command) -> None:
        """If a report ended early after its plan was edited, the same command shows the edited plan and says so,
        without calling the planner.
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

    def test_stored_plan_can_be_replaced(self, command: Command) -> None:
        """`n` requests other sub-questions, and the newly accepted plan is stored."""
        platform = FakePlatform()
        requested = PlanRequest(query="What is it?")
        asyncio.run(platform.research.accept_plan(requested, ("Who made it?",)))
        assert command(*REPORT, typed="n\n\n", platform=platform).code == 0
        assert platform.research.planned == [requested.model_copy(update={"other_than": ("Who made it?",)})]
        assert platform.research.accepted[requested].questions == PLAN.questions

    def test_fresh_ignores_the_stored_plan(self, command: Command) -> None:
        """With --fresh the plan is thought of anew."""
        platform = FakePlatform()
        asyncio.run(platform.research.accept_plan(PlanRequest(query="What is it?"), ("Who made it?",)))
        ended = command(*REPORT, "--fresh", typed="\n", platform=platform)
        assert (ended.code, platform.research.requests[0].plan) == (0, PLAN.questions)
        assert "accepted" not in ended.err

    @pytest.mark.parametrize("options", ["--yes", "--json"])
    def test_unreviewed_plan_is_neither_stored_nor_reused(self, options: str, command: Command) -> None:
        """A plan that was not reviewed is not stored, and an earlier plan is not used without review."""
        platform = FakePlatform()
        asyncio.run(platform.research.accept_plan(PlanRequest(query="What is it?"), ("Who made it?",)))
        assert command(*REPORT, options, typed="", platform=platform).code == 0
        assert platform.research.requests[0].plan is None
        assert [plan.questions for plan in platform.research.accepted.values()] == [("Who made it?",)]


class TestCostOfPlanning:
    QUERY = Sent(host=PLANNER, kind="query", requests=2, bytes=240)

    def test_planning_is_added_to_the_egress_log(self, command: Command) -> None:
        """Data sent for planning is added to the report's egress log, by host and kind."""
        text = Sent(host=PLANNER, kind="page text", requests=1, bytes=5000)
        platform = FakePlatform(answer=answer_with(sent_to=(self.QUERY, text)))
        printed = command(*REPORT, "--show-sent", typed="\n", platform=platform).out
        assert f"{PLANNER}  query      3 requests, 360 B" in printed
        assert f"{PLANNER}  page text  1 request, 5.0 kB" in printed

    def test_planning_calls_count_against_the_limit(self, command: Command) -> None:
        """Each plan is a call less for the report; once there are none left, plans are made without a model."""
        platform = FakePlatform(plans=(PLAN, PLAN))
        assert command(*REPORT, "--max-llm-calls", "5", typed="n\n\n", platform=platform).code == 0
        assert (len(platform.research.planned), platform.research.requests[0].max_llm_calls) == (2, 3)
        platform = FakePlatform()
        ended = command(*REPORT, "--max-llm-calls", "1", typed="n\n\n", platform=platform)
        assert (len(platform.research.planned), platform.research.requests[0].max_llm_calls) == (1, 0)
        assert "What is it" in ended.err

    def test_planning_is_added_to_the_metadata(self, command: Command) -> None:
        """Calls, tokens and cost of the shown plans are added to those of the report."""
        spent = Spending(calls=1, prompt_tokens=200, completion_tokens=50, cost_usd=0.01)
        plan = PLAN.model_copy(update={"spent": spent})
        written = answer_with(llm_calls=3, prompt_tokens=800, completion_tokens=200, cost_usd=0.1)
        platform = FakePlatform(plans=(plan, plan), answer=written)
        printed = command(*REPORT, "--output", "a.json", typed="n\n\n", platform=platform)
        assert printed.code == 0
        result = json.loads(Path("a.json").read_text())["metadata"]
        assert (result["llm_calls"], result["tokens_used"], result["cost_usd"]) == (5, 1500, pytest.approx(0.12))

    def test_unknown_price_makes_the_sum_unknown(self, command: Command) -> None:
        """Rather than too small."""
        plan = PLAN.model_copy(update={"spent": Spending(calls=1, cost_usd=None)})
        platform = FakePlatform(plans=(plan,), answer=answer_with(llm_calls=3, tokens_used=1000, cost_usd=0.1))
        assert "price not known" in command(*REPORT, typed="\n", platform=platform).out

    def test_planning_cost_counts_against_the_limit(self, command: Command) -> None:
        """What planning cost the report has less; once nothing is left, plans are made without a model."""
        plan = PLAN.model_copy(update={"spent": Spending(calls=1, cost_usd=0.25)})
        platform = FakePlatform(plans=(plan, plan))
        assert command(*REPORT, "--max-cost-usd", "1", typed="n\n\n", platform=platform).code == 0
        assert platform.research.requests[0].max_cost_usd == pytest.approx(0.5)
        platform = FakePlatform(plans=(plan,))
        assert command(*REPORT, "--max-cost-usd", "0.2", typed="n\n\n", platform=platform).code == 0
        assert (len(platform.research.planned), platform.research.requests[0].max_cost_usd) == (1, 0.0)

    @pytest.mark.parametrize("limit", ["--max-llm-calls", "--max-cost-usd"])
    @pytest.mark.parametrize(
        ("options", "typed"), [(REPORT, "\n"), ((*QUESTION, "--depth", "report", "--plan-only"), None)]
    )
    def test_limit_of_zero_plans_without_a_model(
        self, options: tuple[str, ...], typed: str | None, limit: str, command: Command
    ) -> None:
        """With a limit of 0 the rules decompose the question without a model."""
        platform = FakePlatform(plans=())
        ended = command(*options, limit, "0", typed=typed, platform=platform)
        assert ended.code == 0
        assert platform.research.planned == []
        assert "What is it" in ended.out + ended.err


class TestNotices:
    def test_jina_notice_by_default(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        """If no reader was chosen, one line says who sees page addresses, and how to change that."""
        monkeypatch.delenv("READERS")
        ended = command(*REPORT)
        assert ended.code == 0
        assert ended.err.count("\n") == 1
        assert "r.jina.ai" in ended.err
        assert "READERS=direct" in ended.err

    @pytest.mark.parametrize("options", ["--depth report --documents .", "--depth report --offline", "--depth deep"])
    def test_no_jina_notice_without_web_pages(
        self, options: str, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Documents are read here, and other depths read pages directly."""
        monkeypatch.delenv("READERS")
        assert command(*QUESTION, *options.split()).err == ""

    def test_no_jina_notice_if_only_documents_are_searched(
        self, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """DOCUMENTS_DIR alone needs no notice, like --documents. A given page is still read."""
        monkeypatch.delenv("READERS")
        only_documents = wiring(FakePlatform(), order=("documents",), model=True)
        assert command(*REPORT, custom_wiring=only_documents).err == ""
        assert "r.jina.ai" in command(*REPORT, "--url", "https://a.example/", custom_wiring=only_documents).err

    def test_pages_without_sources_are_not_searched(self, command: Command) -> None:
        """The notice about search engines is left out, because the question is sent to none."""
        custom_wiring = wiring(FakePlatform(), order=("ddgs",), model=True)
        assert command(*REPORT, "--url", "https://a.example/", custom_wiring=custom_wiring).err == ""
        assert "leaves this machine" in command(*REPORT, custom_wiring=custom_wiring).err


class TestAnswer:
    def test_stored_report_is_noted_with_its_date(self, command: Command) -> None:
        """A replayed answer shows its date and how to get a new one, whichever model wrote it."""
        answer = answer_with(stored_at=FINISHED, synthesizer="kimi/kimi-for-coding")
        printed = command(*REPORT, custom_wiring=wiring(FakePlatform(answer=answer), model=False)).out
        assert (
            "Note: This report is from the store, finished 2026-11-20 10:30 UTC; for a new one, add --fresh." in printed
        )
        assert "No language model" not in printed

    @pytest.mark.parametrize("suffix", ["md", "html"])
    def test_file_notes_that_the_report_is_stored(self, suffix: str, command: Command, tmp_path: Path) -> None:
        """The file also contains the date of a replayed report."""
        answer = answer_with(stored_at=FINISHED)
        assert command(*REPORT, "--output", f"a.{suffix}", platform=FakePlatform(answer=answer)).code == 0
        assert "finished 2026-11-20 10:30 UTC" in (tmp_path / f"a.{suffix}").read_text()

    def test_omissions_are_noted(self, command: Command) -> None:
        """Omissions of a budget are listed in the notes, and omissions for lack of room in the last line."""
        left = Degraded(component="summarize", reason="llm_budget: 2 calls were left out: max_llm_calls is used up")
        answer = answer_with(truncated_tokens=1200).model_copy(update={"degraded": (left,)})
        printed = command(*REPORT, platform=FakePlatform(answer=answer)).out
        assert "Note: summarize: 2 calls were left out: max_llm_calls is used up" in printed
        assert "1200 tokens of the sources left out for length" in printed.splitlines()[-1]

    def test_headings_stay_headings_in_html(self, command: Command, tmp_path: Path) -> None:
        """The headings of a report are headings of the file."""
        answer = ANSWER.model_copy(
            update={"synthesis": f"Intro.\n\n## What is it?\n\n{SENTENCE} [1]\n", "citations": ()}
        )
        command(*REPORT, "--output", "a.html", platform=FakePlatform(answer=answer))
        assert "<h2>What is it?</h2>" in (tmp_path / "a.html").read_text()


class TestEgressLogAndCsl:
    SENT = Sent(host="api.example.org", kind="page text", requests=3, bytes=51_200)

    def test_egress_log_is_printed_below_the_answer(self, command: Command) -> None:
        """--show-sent prints host, kind and bytes. Without the option nothing is printed."""
        platform = FakePlatform(answer=answer_with(sent_to=(self.SENT,)))
        printed = command(*QUESTION, "--show-sent", platform=platform).out
        assert printed.index("made of quotes") < printed.index("api.example.org  page text  3 requests, 51.2 kB")
        assert "api.example.org" not in command(*QUESTION, platform=platform).out

    @pytest.mark.parametrize("option", ["--json", "--output=a.md"])
    def test_egress_log_goes_to_standard_error_with_json_or_file(self, option: str, command: Command) -> None:
        """Standard output is the answer alone."""
        platform = FakePlatform(answer=answer_with(sent_to=(self.SENT,)))
        ended = command(*QUESTION, "--show-sent", option, platform=platform)
        assert "api.example.org  page text" in ended.err
        assert (json.loads(ended.out)["depth"] if option == "--json" else ended.out) in ("report", "")

    def test_csl_file_holds_the_sources(self, command: Command, tmp_path: Path) -> None:
        """--csl writes the sources to an additional file at any depth, whatever the output."""
        ended = command(*QUESTION, "--csl", "sources.json")
        items = json.loads((tmp_path / "sources.json").read_text())
        assert [item["URL"] for item in items] == [source.url for source in ANSWER.sources]
        assert SENTENCE in ended.out

    @pytest.mark.parametrize(("prints_object", "error"), [(False, BrokenPipeError), (True, CommandError)])
    def test_files_are_written_although_the_answer_is_not_printed(
        self, tmp_path: Path, prints_object: bool, error: type[Exception]
    ) -> None:
        """The reader of standard output may close it before the end, and a schema may get no object."""
        console = Console(ClosedPipe(), io.StringIO(), io.StringIO())
        csl, evidence = tmp_path / "sources.json", tmp_path / "evidence.jsonl"
        options = OutputOptions(csl=csl, evidence=evidence, prints_object=prints_object)
        with pytest.raises(error):
            deliver_research(console, options, answer_with(), is_live=False)
        assert csl.exists()
        assert evidence.exists()

    def test_csl_file_is_replaced_only_after_confirmation(self, command: Command, tmp_path: Path) -> None:
        """Before anything is spent."""
        (tmp_path / "sources.json").write_text("mine")
        platform = FakePlatform()
        ended = command(*QUESTION, "--csl", "sources.json", typed="n\n", platform=platform)
        assert (ended.code, platform.research.requests) == (1, [])
        assert (tmp_path / "sources.json").read_text() == "mine"


def test_json_has_the_metadata_of_a_report(command: Command) -> None:
    """Plan, topic, date and ledger, as the HTTP answer has them."""
    answer = answer_with(plan=("a?",), topic="what-is-it-1", stored_at=FINISHED, sent_to=(TestEgressLogAndCsl.SENT,))
    result = json.loads(command(*REPORT, "--json", platform=FakePlatform(answer=answer)).out)["metadata"]
    assert ResearchMetadata.model_validate(result) == answer.metadata


class TestInterrupted:
    def test_interrupted_report_prints_the_resume_command(self, command: Command) -> None:
        """Its words as they were typed, quoted for a shell; --fresh would begin anew, so it is left out."""
        wish = ("--instructions", "it's short")
        ended = command(*REPORT, *wish, "--fresh", platform=FakePlatform(answer=INTERRUPTED))
        assert ended.code == 130
        assert ended.err.splitlines()[-2:] == [
            "Interrupted. Finished steps are stored. To continue, run:",
            f"llm-platform research 'What is it?' --depth report {shlex.join(wish)}",
        ]

    @pytest.mark.parametrize(("typed", "named"), [("What is it?", "'What is it?'"), ("-1 or 1?", "-- '-1 or 1?'")])
    def test_resume_command_has_the_question_of_standard_input(
        self, typed: str, named: str, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was piped in, or typed when asked for, is no longer there."""
        monkeypatch.setattr(Console, "read_question", lambda self, prompt, *, prompts_enabled: typed)
        ended = command("research", "--depth", "report", platform=FakePlatform(answer=INTERRUPTED))
        assert ended.err.splitlines()[-1] == f"llm-platform research --depth report {named}"

    @pytest.mark.parametrize(("arguments", "days"), [(QUESTION, "30"), (REPORT, "0")])
    def test_no_resume_command_when_nothing_is_stored(
        self, arguments: tuple[str, ...], days: str, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another depth has no stages, and STORE_TTL_DAYS=0 keeps none."""
        monkeypatch.setenv("STORE_TTL_DAYS", days)
        ended = command(*arguments, platform=FakePlatform(answer=INTERRUPTED))
        assert ended.code == 130
        assert "Interrupted" not in ended.err


def test_context_of_a_question(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--context FILE` is the text beyond the question. A longer text in a pipe contains the question, and is its context."""
    (tmp_path / "notes.txt").write_text("I live in Oslo.\n", "utf-8")
    platform = FakePlatform()
    assert command(*QUESTION, "--context", str(tmp_path / "notes.txt"), platform=platform).code == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(AGENT))
    assert run(["research", "--context", str(tmp_path / "notes.txt")], wiring(platform, model=True)) == 0
    given, piped = platform.research.requests
    assert (given.query, given.context) == ("What is it?", "I live in Oslo.")
    assert piped.query.startswith("Compare the efficiency of air-source heat pumps")
    assert piped.context == f"{AGENT.strip()}\n\nI live in Oslo."
    capsys.readouterr()
    (tmp_path / "long.txt").write_text("x" * 32_001)
    ended = command(*QUESTION, "--context", str(tmp_path / "long.txt"))
    assert (ended.code, "--context" in ended.err, "32000" in ended.err) == (2, True, True)
    ended = command("research", "x" * (MAX_MESSAGE_CHARS + 1))
    assert (ended.code, "QUESTION" in ended.err, str(MAX_MESSAGE_CHARS) in ended.err) == (2, True, True)


def test_no_message_of_a_pipe_is_cut(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever its alphabet: the longest message arrives whole, and a longer one is refused."""
    for chars, code in ((MAX_MESSAGE_CHARS, 0), (MAX_MESSAGE_CHARS + 1, 2)):
        platform, written = FakePlatform(), ("什么是茶？" * MAX_MESSAGE_CHARS)[:chars]
        pipe = SimpleNamespace(isatty=lambda: False, buffer=io.BytesIO(written.encode()))
        monkeypatch.setattr(sys, "stdin", pipe)
        assert run(["research"], wiring(platform, model=True)) == code
        assert [request.query for request in platform.research.requests] == ["什么是茶？"] * (code == 0)
        capsys.readouterr()
