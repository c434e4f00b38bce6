"""The commands as they are called: what reaches the services, what reaches the person, how they end."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.fakes.tracing import MemoryTracer
from tests.unit.presentation.cli.fakes import ANSWER, FOUND, MARKED, SENTENCE, Ended, FakePlatform, Terminal, wiring

from modules.llm_platform.domain.dtos.answer_dtos import ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Verdict
from modules.llm_platform.domain.dtos.degraded import Degraded
from modules.llm_platform.domain.dtos.request_dtos import FIELDS_FOR_REPORTS, ResearchRequest
from modules.llm_platform.domain.dtos.source_dtos import RawResult
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS, WebSearchResponse
from modules.llm_platform.domain.exceptions import WebSearchConfigError, WebSearchConnectionError, WebSearchRequestError
from modules.llm_platform.domain.text.messages import get_messages
from modules.llm_platform.infrastructure.models.from_settings.embedder import KEYWORDS_ONLY
from modules.llm_platform.presentation.cli.main import app, run
from modules.llm_platform.presentation.cli.setup import Wiring
from shared.config import Settings, SettingsError

NO_NETWORK = WebSearchConnectionError("ddgs cannot be reached")


Command = Callable[..., Ended]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: str, platform: FakePlatform | None = None, custom_wiring: Wiring | None = None) -> Ended:
        code = run(arguments, custom_wiring or wiring(platform or FakePlatform()))
        return Ended(code, *capsys.readouterr())

    return call


@pytest.mark.parametrize(("words", "argument"), [("search", "QUERY"), ("read", "URL"), ("topics show", "TOPIC")])
def test_missing_argument_is_named(words: str, argument: str, command: Command) -> None:
    """The message says that the argument is missing, not that an empty value is invalid."""
    ended = command(*words.split())
    assert (ended.code, f"Missing argument '{argument}'" in ended.err) == (2, True), ended.err


@pytest.mark.parametrize(
    ("words", "answer", "result"),
    [
        (["research", "What is asyncio?"], ANSWER, "ok"),
        (["research", "What is asyncio?"], NO_NETWORK, NO_NETWORK.code),
        (["research", "What is asyncio?"], ValueError("a private text"), "internal"),
        (["research", "What is asyncio?"], KeyboardInterrupt(), "cancelled"),
        (["research", "What is asyncio?", "--output", "answer.exe"], ANSWER, "wrong_use"),
        (["topics", "list", "--json"], ANSWER, "internal"),  # the fake has no store
    ],
)
def test_a_command_is_a_span(
    words: list[str], answer: ResearchResponse | BaseException, result: str, command: Command
) -> None:
    """The span has the name of the command. Its result is ok, cancelled, wrong_use, failed or the error code."""
    tracer = MemoryTracer()
    traced = replace(wiring(FakePlatform(answer=answer)), command_tracer=lambda console, *, offline: tracer)
    command(*words, custom_wiring=traced)
    [span] = tracer.ended
    name = "topics list" if words[0] == "topics" else "research"
    assert (span.name, span.attributes) == (
        f"command {name}",
        {"llm_platform.command": name, "llm_platform.result": result},
    )


class TestSearch:
    def test_options_reach_the_service(self, command: Command) -> None:
        """Every option of a search is a field of its request."""
        platform = FakePlatform()
        options = (
            "--count 3 --page 2 --freshness oneDay --time-range month --sources web,news --engines google,bing"
            " --domains python.org,-pinterest.com --language pt_br"
        )
        assert command("search", "asyncio", *options.split(), platform=platform).code == 0
        (request,) = platform.searches
        assert request.model_dump(exclude={"summary"}) == {
            "query": "asyncio",
            "count": 3,
            "page": 2,
            "freshness": "oneDay",
            "time_range": "month",
            "sources": ("web", "news"),
            "engines": ("google", "bing"),
            "domains": ("python.org", "-pinterest.com"),
            "language": "pt-BR",
        }
        assert platform.closed

    def test_results_are_listed(self, command: Command) -> None:
        """Title, address and words of each result, and who found them; nothing on standard error in a pipe."""
        ended = command("search", "asyncio")
        assert ended.err == ""
        assert "1. One\n   https://example.org/1\n   example\n   First.\n2. Two" in ended.out
        assert ended.out.endswith("2 results from searxng\n")

    def test_verdict_of_a_model_is_labelled(self, command: Command) -> None:
        """A verdict of a model is labelled, together with the lexical verdict and its score."""
        judged = {"verdict": "partial", "checked_by": "model", "word_verdict": "unsupported", "score": 0.1}
        answer = ANSWER.model_copy(update={"citations": (ANSWER.citations[0].model_copy(update=judged),)})
        printed = command("research", "What?", platform=FakePlatform(answer=answer)).out
        assert "~ partial by the model (words: unsupported 0.10)  “" in printed

    def test_json_is_the_http_answer(self, command: Command) -> None:
        """The fields of POST /llm-platform/web-search: no score, no raw answer."""
        ended = command("search", "asyncio", "--json")
        answer = json.loads(ended.out)
        assert set(answer) == {"query", "total_matches", "results", "provider", "degraded"}
        assert set(answer["results"][0]) == {"title", "url", "snippet", "summary", "site_name", "published_date"}
        assert ended.err == ""

    @pytest.mark.parametrize(
        ("options", "option", "expected"),
        [
            ("--count 0", "--count", "must be greater than or equal to 1"),
            ("--count 51", "--count", "must be less than or equal to 50"),
            ("--count ten", "--count", "must be a valid integer\n"),
            ("--freshness soon", "--freshness", "must be oneDay"),
            ("--sources web,books", "--sources", "must be 'web', 'news'"),
            ("--language x", "--language", "must be a language tag"),
            ("--engines a;b", "--engines", "number 1 must be a name of at most 60 letters"),
            ("--domains python.org,py*thon", "--domains", "number 2 must be the name of a site"),
            ("--provider google", "--provider", ": 'google' is not one of 'searxng'"),
            ("--documents nowhere", "--documents", "does not exist"),
            ("--output answer.pdf", "--output", ".md, .html or .json"),
            ("--output .", "--output", "Invalid value for --output: . must end in"),
            ("--output nowhere/answer.md", "--output", "does not exist"),
            ("--offline --provider bocha", "--provider", "needs a network"),
            ("--documents /dev/null", "--documents", "/dev/null is neither a folder nor a file"),
            ("--documents . --provider bocha", "--provider", "only that folder"),
            ("--no-such-option", "--no-such-option", "No such option"),
        ],
    )
    def test_wrong_use_names_the_option(self, options: str, option: str, expected: str, command: Command) -> None:
        """Wrong use exits with 2 and prints the option and its valid values on standard error, before anything is asked
        or spent.
        """
        platform = FakePlatform()
        ended = command("search", "asyncio", *options.split(), platform=platform)
        assert (ended.code, ended.out, platform.searches) == (2, "", [])
        assert option in ended.err
        assert expected in ended.err

    @pytest.mark.parametrize(
        ("published", "printed"),
        [("2026-01-02T00:00:00", "2026-01-02\n"), ("2026-01-02T07:05:00Z", "2026-01-02T07:05:00Z\n")],
    )
    def test_placeholder_midnight_is_left_out(self, published: str, printed: str, command: Command) -> None:
        """Engines that know the day write midnight; people see the day."""
        found = FOUND.model_copy(
            update={"results": (FOUND.results[1].model_copy(update={"published_date": published}),)}
        )
        assert f"   {printed}" in command("search", "asyncio", platform=FakePlatform(found=found)).out

    @pytest.mark.parametrize("query", ["", "  ", "\u200b", "x" * (MAX_QUERY_CHARS + 1)])
    def test_empty_or_long_query_is_wrong_use(self, query: str, command: Command) -> None:
        """What the request refuses is refused here, under the argument's name."""
        ended = command("search", query)
        assert ended.code == 2
        assert "QUERY" in ended.err

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (WebSearchRequestError("freshness must be oneDay or a date"), 2),
            (WebSearchConfigError("Bocha needs a key: set BOCHA_API_KEY"), 1),
            (ValueError("a bug"), 1),
        ],
    )
    def test_failure_is_one_line(self, error: Exception, code: int, command: Command) -> None:
        """The caller's mistake is 2, all else 1; standard error holds one line and no traceback."""
        platform = FakePlatform(found=error)
        ended = command("search", "asyncio", platform=platform)
        assert (ended.code, ended.out) == (code, "")
        assert ended.err.startswith("llm-platform: ")
        assert ended.err.count("\n") == 1
        assert platform.closed

    @pytest.mark.parametrize(("suffix", "begins"), [("md", "# asyncio"), ("html", "<!doctype html>"), ("json", "{")])
    def test_output_file_replaces_standard_output(
        self, suffix: str, begins: str, tmp_path: Path, command: Command
    ) -> None:
        """The name's ending decides the format; the screen stays empty."""
        target = tmp_path / f"found.{suffix}"
        assert command("search", "asyncio", "--output", str(target)) == Ended(0, "", "")
        assert target.read_text(encoding="utf-8").startswith(begins)

    def test_empty_result_has_a_message(self, command: Command) -> None:
        """An empty answer is an answer: exit code 0 and a sentence."""
        nothing = WebSearchResponse(query="x", provider="searxng")
        ended = command("search", "x", platform=FakePlatform(found=nothing))
        assert (ended.code, ended.out) == (0, "Nothing was found.\n\n0 results from searxng\n")

    @pytest.mark.parametrize("arguments", [["search", "asyncio"], ["search", "--help"], ["--help"], ["--version"]])
    def test_full_disk_is_one_line(
        self,
        arguments: list[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """An answer that cannot be written out is a failure, and the line says why."""
        with (tmp_path / "out").open("w") as file:

            class Full(io.StringIO):
                def write(self, text: str) -> int:
                    raise OSError(28, "No space left on device")

                def fileno(self) -> int:
                    return file.fileno()

            monkeypatch.setattr(sys, "stdout", Full())
            assert run(arguments, wiring(FakePlatform())) == 1
        assert (
            capsys.readouterr().err == "llm-platform: standard output could not be written: No space left on device\n"
        )


class TestKeylessSearch:
    def test_keyless_search_is_announced(self, command: Command) -> None:
        """One line on standard error says that the query leaves the machine, and what would keep it here."""
        ended = command("search", "asyncio", custom_wiring=wiring(FakePlatform(), order=("ddgs",)))
        assert ended.code == 0
        assert ended.err.count("\n") == 1
        assert "leaves this machine" in ended.err
        assert "--documents DIR" in ended.err

    def test_nothing_is_announced_that_cannot_happen(self, command: Command) -> None:
        """Without the package of the keyless search no query leaves the machine; the error says what to install."""
        without = replace(wiring(FakePlatform(), order=("ddgs",)), has_fallback=lambda: False)
        assert "leaves this machine" not in command("search", "asyncio", custom_wiring=without).err

    def test_chosen_ddgs_is_not_announced(self, command: Command) -> None:
        """There is no notice for a provider that was chosen explicitly."""
        assert (
            command("search", "x", "--provider", "ddgs", custom_wiring=wiring(FakePlatform(), order=("ddgs",))).err
            == ""
        )

    @pytest.mark.parametrize("arguments", [["search", "asyncio"], ["research", "What is it?"]])
    def test_missing_network_names_the_settings(self, arguments: list[str], command: Command) -> None:
        """Exit code 1; the last line names SEARXNG_URL and --documents."""
        platform = FakePlatform(found=NO_NETWORK, answer=NO_NETWORK)
        ended = command(*arguments, custom_wiring=wiring(platform, order=("ddgs",)))
        assert ended.code == 1
        last = ended.err.splitlines()[-1]
        assert last.startswith("llm-platform: ddgs cannot be reached")
        assert "SEARXNG_URL" in last
        assert "--documents DIR" in last

    def test_wrong_use_has_no_network_remedy(self, command: Command) -> None:
        """An error of the caller has no remedy about the network."""
        platform = FakePlatform(found=WebSearchRequestError("freshness is not in the expected format"))
        ended = command("search", "asyncio", custom_wiring=wiring(platform, order=("ddgs",)))
        assert ended.code == 2
        assert ended.err.splitlines()[-1] == "llm-platform: freshness is not in the expected format"

    def test_offline_without_documents_names_the_setting(self, command: Command) -> None:
        """Offline there is one thing to name: a folder."""
        platform = FakePlatform()
        ended = command("research", "What is it?", "--offline", custom_wiring=wiring(platform, order=()))
        assert ended.code == 1
        assert "--documents DIR" in ended.err
        assert platform.settings is None


class TestResearch:
    def test_options_reach_the_service(self, command: Command) -> None:
        """Every option of a research run is a field of its request; in a pipe the model is not asked to stream."""
        platform = FakePlatform()
        options = "--depth deep --sources web,news --time-range week --freshness 2026-03-31"
        options += " --domains a.org --language de --omit-raw --rounds 3"
        assert command("research", "What is it?", *options.split(), platform=platform).code == 0
        (request,) = platform.research.requests
        assert request.model_dump() == {
            "query": "What is it?",
            "depth": "deep",
            "sources": ("web", "news"),
            "time_range": "week",
            "freshness": "2026-03-31",
            "domains": ("a.org",),
            "language": "de",
            "pages": None,
            "rounds": 3,
            "omit_raw": True,
            "instructions": None,
            "context": None,
            "model": None,
            "files": (),
            "output_schema": None,
            "previous_id": None,
            "history": (),
            **{name: ResearchRequest.model_fields[name].default for name in FIELDS_FOR_REPORTS},
        }
        assert not platform.research.streamed
        assert platform.closed

    def test_answer_sources_citations_and_notes_are_printed_in_order(self, command: Command) -> None:
        """The answer is followed by its sources, each quote with its verdict, and the notes."""
        ended = command("research", "What is asyncio?")
        assert ended.code == 0
        assert ended.err == ""
        parts = [
            MARKED,
            "Sources",
            "[1] asyncio — docs",
            "    https://docs.example.org/asyncio",
            "[2] Notes",
            "Citations",
            f"✔ supported 0.93  “{SENTENCE}” — [1]",
            "○ not found 0.10  [2] does not say: “Nobody knows why”",
            "Note: Did you mean “asyncio”?",
            "Note: searxng/google: captcha",
            "Note: No language model is configured",
            "1.2 s · 1 search (searxng) · made of quotes, without a language model",
        ]
        positions = [ended.out.find(part) for part in parts]
        assert -1 not in positions, ended.out
        assert positions == sorted(positions)

    @pytest.mark.parametrize(
        ("question", "message"),
        [("ab", "must have at least 3 characters"), ("   ??? ", "must contain a word"), (" ", "there is no question")],
    )
    def test_short_question_is_wrong_use(self, question: str, message: str, command: Command) -> None:
        """The message names the argument and counts characters, or says that there is no word."""
        ended = command("research", question)
        assert (ended.code, ended.out) == (2, "")
        assert "QUESTION" in ended.err
        assert message in ended.err

    def test_tokens_and_cost_are_printed(self, command: Command) -> None:
        """Tokens and dollars of a model's answer; a price that is not known is not called zero."""
        paid = ANSWER.metadata.model_copy(
            update={"llm_calls": 1, "tokens_used": 500, "cost_usd": 0.0125, "cache_hit": True}
        )
        result = {
            (0.0125, False): "500 tokens, $0.0125",
            (None, False): "500 tokens, price not known",
            (None, True): "500 tokens, cost not known: a call was cut off",
            (0.0, False): "500 tokens, no cost",
        }
        for (cost, is_cut_off), expected in result.items():
            metadata = paid.model_copy(update={"cost_usd": cost, "is_cost_cut_off": is_cut_off})
            answer = ANSWER.model_copy(update={"metadata": metadata})
            printed = command("research", "What?", platform=FakePlatform(answer=answer)).out
            assert expected in printed
            assert "(from the cache)" in printed

    def test_no_model_note_with_a_configured_model(self, command: Command) -> None:
        """The hint is for those who have none."""
        assert (
            "No language model"
            not in command("research", "What?", custom_wiring=wiring(FakePlatform(), model=True)).out
        )

    def test_offline_note_names_unavailable_models(self, command: Command) -> None:
        """A model elsewhere is not asked offline: the note says that."""
        custom_wiring = replace(wiring(FakePlatform()), has_model=lambda settings: not settings.LLM_PLATFORM_OFFLINE)
        printed = command("research", "What?", "--documents", ".", "--offline", custom_wiring=custom_wiring).out
        assert "Note: The configured language models cannot be used offline" in printed
        assert "No language model is configured" not in printed

    def test_failed_model_is_noted(self, command: Command) -> None:
        """If a configured model fails, a note gives the reason in plain words."""
        degraded = (Degraded(component="llm", reason="llm_provider: kimi failed (500)"),)
        answer = ANSWER.model_copy(update={"degraded": degraded})
        printed = command("research", "What?", custom_wiring=wiring(FakePlatform(answer=answer), model=True)).out
        assert "Note: llm: kimi failed (500)" in printed
        assert "Note: No model wrote this answer: these are quotes from your sources." in printed

    def test_a_missing_embedder_is_a_sentence(self, command: Command) -> None:
        """The note names no component `none`."""
        degraded = (Degraded(component="none", reason=KEYWORDS_ONLY),)
        answer = ANSWER.model_copy(update={"degraded": degraded})
        printed = command("research", "What?", custom_wiring=wiring(FakePlatform(answer=answer), model=True)).out
        assert "Note: No embedding model is installed: keyword search only." in printed

    @pytest.mark.parametrize("language", ["en", "de"])
    def test_quotes_are_not_explained_twice(self, language: str, command: Command) -> None:
        """Where the answer itself says that the model failed, the note with the cause is the only one."""
        metadata = ANSWER.metadata.model_copy(update={"language": language, "correction": None})
        synthesis = f"{ANSWER.synthesis}\n\n{get_messages(language).model_failed}"
        degraded = (Degraded(component="llm", reason="llm_provider: kimi failed (500)"),)
        answer = ANSWER.model_copy(update={"synthesis": synthesis, "degraded": degraded, "metadata": metadata})
        printed = command("research", "What?", custom_wiring=wiring(FakePlatform(answer=answer), model=True)).out
        assert re.findall("^Note: .*", printed, re.MULTILINE) == ["Note: llm: kimi failed (500)"]

    @pytest.mark.parametrize(
        ("verdict", "quote", "expected"),
        [
            ("partial", "Some  of\nit.", "~ partial 0.40  “Some of it.” — [2]"),
            ("unsupported", "", "○ not found 0.40  [2] does not say: “Nobody knows why”"),
            (
                "unsupported",
                "Else.",
                "○ not found 0.40  [2] does not say: “Nobody knows why”; nearest there: “Else.”",
            ),
            (
                "unchecked",
                "",
                "? unchecked 0.40  [2] has no stored text or is in another language, so the sentence was not compared with it: "
                "“Nobody knows why”",
            ),
        ],
    )
    def test_unsupported_citation_shows_the_sentence(
        self, verdict: Verdict, quote: str, expected: str, command: Command
    ) -> None:
        """Where the source does not say it, the sentence is shown, and the quote only as the nearest thing."""
        start = ANSWER.synthesis.index("Nobody")
        cited = ANSWER.citations[1].model_copy(update={"verdict": verdict, "quote": quote, "score": 0.4})
        assert cited.start == start
        answer = ANSWER.model_copy(update={"citations": (cited,)})
        assert f"\n{expected}\n" in command("research", "What?", platform=FakePlatform(answer=answer)).out

    @pytest.mark.parametrize(("language", "note"), [("de", " (German)"), ("en", ""), (None, ""), ("zxx", " (zxx)")])
    def test_a_source_in_another_language_says_which(self, language: str | None, note: str, command: Command) -> None:
        sources = tuple(source.model_copy(update={"language": language}) for source in ANSWER.sources)
        answer = ANSWER.model_copy(update={"sources": sources})
        printed = command("research", "What?", platform=FakePlatform(answer=answer)).out
        assert f"\n[2] Notes{note}\n" in printed

    @pytest.mark.parametrize(
        ("extraction", "note"), [(0.08, " (only 8% of the page's visible text was read)"), (0.5, ""), (None, "")]
    )
    def test_a_doubt_says_how_little_of_the_page_was_read(
        self, extraction: float | None, note: str, command: Command
    ) -> None:
        """The missing statement may be in the part of the page that was not read."""
        cited = ANSWER.citations[1].model_copy(update={"verdict": "unsupported", "quote": "", "score": 0.4})
        sources = tuple(source.model_copy(update={"extraction": extraction}) for source in ANSWER.sources)
        answer = ANSWER.model_copy(update={"citations": (cited,), "sources": sources})
        printed = command("research", "What?", platform=FakePlatform(answer=answer)).out
        assert f"[2] does not say: “Nobody knows why”{note}\n" in printed

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", "the text of [2] is not stored"),
            ("Никто.", "[2] is in another language, so the sentence was not compared with it"),
        ],
    )
    def test_unchecked_citation_shows_its_cause(self, text: str, expected: str, command: Command) -> None:
        """A text that is there was not compared because of its language."""
        cited = ANSWER.citations[1].model_copy(update={"verdict": "unchecked", "score": 0.0})
        raw = RawResult(title="Notes", url=ANSWER.sources[1].url, content=text, source="documents")
        answer = ANSWER.model_copy(update={"citations": (cited,), "raw_results": (raw,)})
        printed = command("research", "What?", platform=FakePlatform(answer=answer)).out
        assert f"\n? unchecked 0.00  {expected}: “Nobody knows why”\n" in printed

    def test_json_is_the_http_answer(self, command: Command) -> None:
        """What POST /research answers, to the letter."""
        ended = command("research", "What is asyncio?", "--json")
        assert json.loads(ended.out) == json.loads(ANSWER.model_dump_json())
        assert ended.err == ""

    def test_documents_is_the_only_provider(self, tmp_path: Path, command: Command) -> None:
        """--documents names the only provider, and asks for documents unless other sources are named."""
        platform = FakePlatform()
        command("research", "What is it?", "--documents", str(tmp_path), "--offline", platform=platform)
        assert platform.settings is not None
        assert platform.settings.SEARCH_PROVIDERS == ("documents",)
        assert tmp_path == platform.settings.DOCUMENTS_DIR
        assert platform.settings.LLM_PLATFORM_OFFLINE
        assert platform.research.requests[0].sources == ("documents",)

    def test_unknown_depth_lists_the_choices(self, command: Command) -> None:
        """What does not exist is wrong use, and the message says what exists."""
        ended = command("research", "What is it?", "--depth", "profound")
        assert ended.code == 2
        assert [name for name in ("shallow", "deep", "report") if name not in ended.err] == []

    @pytest.mark.parametrize(("suffix", "begins"), [("md", "# What is"), ("html", "<!doctype html>"), ("json", "{")])
    def test_output_file_replaces_standard_output(
        self, suffix: str, begins: str, tmp_path: Path, command: Command
    ) -> None:
        """The name's ending decides the format; the screen stays empty."""
        target = tmp_path / f"answer.{suffix}"
        ended = command("research", "What is it?", "--output", str(target))
        assert ended == Ended(0, "", "")
        assert target.read_text(encoding="utf-8").startswith(begins)
        assert [path.name for path in tmp_path.iterdir()] == [target.name]

    def test_json_and_file_together(self, tmp_path: Path, command: Command) -> None:
        """--json and --output can be combined."""
        ended = command("research", "What is it?", "--json", "--output", str(tmp_path / "a.md"))
        assert json.loads(ended.out)["synthesis"] == ANSWER.synthesis
        assert (tmp_path / "a.md").exists()

    def test_failed_research_keeps_the_old_file(self, tmp_path: Path, command: Command) -> None:
        """A file that was there keeps its words."""
        target = tmp_path / "a.md"
        target.write_text("yesterday")
        platform = FakePlatform(answer=WebSearchConfigError("no provider"))
        assert command("research", "What is it?", "--output", str(target), platform=platform).code == 1
        assert target.read_text() == "yesterday"

    def test_question_is_read_from_a_pipe(self, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
        """Without an argument standard input is the question, even with invalid UTF-8."""
        monkeypatch.setattr(
            sys, "stdin", SimpleNamespace(isatty=lambda: False, buffer=io.BytesIO(b"  What is \xff?\n"))
        )
        platform = FakePlatform()
        assert command("research", platform=platform).code == 0
        assert platform.research.requests[0].query == "What is \ufffd?"

    def test_an_empty_pipe_is_wrong_use(self, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
        """No question, no research."""
        monkeypatch.setattr(sys, "stdin", io.StringIO(""))
        ended = command("research")
        assert ended.code == 2
        assert "QUESTION" in ended.err

    def test_question_is_prompted_for_on_a_terminal(self, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
        """On a terminal the question is asked for, on standard error."""
        monkeypatch.setattr(sys, "stdin", Terminal("What is it?\n"))
        platform = FakePlatform()
        ended = command("research", platform=platform)
        assert ended.err.startswith("Question: ")
        assert platform.research.requests[0].query == "What is it?"

    def test_yes_disables_the_prompt(self, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
        """With --yes even a terminal is not asked."""
        monkeypatch.setattr(sys, "stdin", Terminal("What is it?\n"))
        assert command("research", "--yes").code == 2


class TestServe:
    def test_serve_options_reach_the_settings(self, tmp_path: Path, command: Command) -> None:
        """Host, port and providers of the command line win over the environment."""
        served: list[Settings] = []
        custom_wiring = wiring(FakePlatform(), serve=served.append)
        arguments = ["--host", "127.0.0.2", "--port", "0", "--documents", str(tmp_path), "--offline"]
        assert command("serve", *arguments, custom_wiring=custom_wiring).code == 0
        (settings,) = served
        assert (settings.LLM_PLATFORM_HOST, settings.LLM_PLATFORM_PORT) == ("127.0.0.2", 0)
        assert settings.SEARCH_PROVIDERS == ("documents",)

    def test_missing_extra_names_the_install_command(self, command: Command) -> None:
        """Without the server's packages the message is the line that installs them."""

        def serve(settings: Settings) -> None:
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")

        ended = command("serve", custom_wiring=wiring(FakePlatform(), serve=serve))
        assert ended.code == 1
        assert 'pip install "llm-platform[server]"' in ended.err

    def test_missing_internal_module_is_no_missing_extra(self, command: Command) -> None:
        """A missing internal module is not reported as a missing extra."""

        def serve(settings: Settings) -> None:
            raise ModuleNotFoundError("No module named 'gone'", name="gone")

        ended = command("serve", custom_wiring=wiring(FakePlatform(), serve=serve))
        assert ended.code == 1
        assert "pip install" not in ended.err

    def test_settings_error_ends_serve(self, command: Command) -> None:
        """What the server refuses ends the command with its words."""

        def serve(settings: Settings) -> None:
            raise SettingsError("LLM_PLATFORM_HOST is open to others: set LLM_PLATFORM_API_KEYS")

        ended = command("serve", custom_wiring=wiring(FakePlatform(), serve=serve))
        assert ended.code == 1
        assert "LLM_PLATFORM_API_KEYS" in ended.err

    def test_ctrl_c_is_130(self, command: Command) -> None:
        """Interrupted is not failed."""

        def serve(settings: Settings) -> None:
            raise KeyboardInterrupt

        assert command("serve", custom_wiring=wiring(FakePlatform(), serve=serve)) == Ended(130, "", "")


class TestAllCommands:
    @pytest.mark.parametrize("name", ["search", "research", "serve", "config", "doctor"])
    def test_invalid_setting_ends_every_command(
        self, name: str, monkeypatch: pytest.MonkeyPatch, command: Command
    ) -> None:
        """Every command exits with 1 and prints the variable, the fault and an example."""
        monkeypatch.setenv("SEARXNG_URL", "localhost")
        ended = command(name, *(["What is it?"] if name in ("search", "research") else []))
        assert (ended.code, ended.out) == (1, "")
        assert (
            "SEARXNG_URL must begin with http:// or https://. Example: SEARXNG_URL=http://localhost:8080" in ended.err
        )

    @pytest.mark.parametrize("name", ["search", "research", "serve", "config", "doctor"])
    def test_unknown_variable_is_named(self, name: str, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
        """A misspelt variable is a warning in addition to the answer."""
        monkeypatch.setenv("SEARXNG_ULR", "http://localhost:8080")
        ended = command(name, *(["What is it?"] if name in ("search", "research") else []))
        assert ended.code == 0
        assert "SEARXNG_ULR is not a setting; did you mean SEARXNG_URL?\n" in ended.err + ended.out

    def test_log_level_enables_the_traceback(self, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
        """With LOG_LEVEL set, a bug leaves its traceback in the log, on standard error."""
        monkeypatch.setenv("LOG_LEVEL", "DEBUG")
        ended = command("search", "asyncio", platform=FakePlatform(found=ValueError("a bug")))
        assert ended.code == 1
        assert "Traceback" in ended.err
        assert ended.out == ""

    def test_registered_commands(self) -> None:
        """What is not there yet is absent from the help."""
        assert [command.callback.__name__ for command in app.registered_commands if command.callback] == [
            "search",
            "research",
            "verify",
            "read",
            "serve",
            "config",
            "doctor",
            "documents",
            "index",
            "ask",
            "mcp",
            "worker",
        ]

    def test_no_command_prints_help(self, command: Command) -> None:
        """Nothing at all is wrong use that shows the help."""
        ended = command()
        assert ended.code == 2
        assert "Usage: llm-platform" in ended.out + ended.err

    def test_every_command_has_short_help_option(self, command: Command) -> None:
        """Groups and commands alike."""
        groups = [app, *(group.typer_instance for group in app.registered_groups if group.typer_instance)]
        paths = [[]] + [[group.name] for group in app.registered_groups if group.name]
        for path, group in zip(paths, groups, strict=True):
            names = [
                command.name or command.callback.__name__ for command in group.registered_commands if command.callback
            ]
            for words in ([], *([name] for name in names)):
                short = command(*path, *words, "-h")
                assert (short.code, short.err) == (0, "")
                assert "-h, --help" in short.out, words  # one option with two names

    def test_version_of_the_package(self, command: Command) -> None:
        """One line, for a report of a fault."""
        assert command("--version") == (0, f"llm-platform {metadata.version('llm-platform')}\n", "")

    def test_version_without_an_installed_package(self, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where nothing is installed there is no version, and no traceback."""

        def unknown(name: str) -> str:
            raise metadata.PackageNotFoundError(name)

        monkeypatch.setattr(metadata, "version", unknown)
        assert command("--version") == (0, "llm-platform (unknown version: the package is not installed)\n", "")

    def test_control_sequences_are_removed(self, command: Command) -> None:
        """Titles, addresses and errors of strangers lose what steers a terminal, on both streams and in JSON."""
        evil = "\x1b[2J\x9b31m\u202eTitle\x07"
        first = FOUND.results[0].model_copy(update={"title": evil, "snippet": evil})
        platform = FakePlatform(found=FOUND.model_copy(update={"results": (first,)}))
        printed = (
            command("search", "x", platform=platform).out + command("search", "x", "--json", platform=platform).out
        )
        printed += command("search", "x", platform=FakePlatform(found=WebSearchConfigError(evil))).err
        assert not set(printed) & set("\x1b\x9b\u202e\x07")
        assert printed.count("Title") == 5
