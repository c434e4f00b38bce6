"""A running research on a terminal: progress on standard error, the streamed answer, and nothing printed twice."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.unit.presentation.cli.fakes import (
    ANSWER,
    MARKED,
    SENTENCE,
    FakePlatform,
    Terminal,
    piped_console,
    terminal_console,
    wiring,
)

from modules.llm_platform.application.research.events import (
    Failed,
    Planned,
    Ranked,
    ResearchEvent,
    Reset,
    Searched,
    SourcesNumbered,
    Started,
    Token,
)
from modules.llm_platform.domain.exceptions import WebSearchConnectionError
from modules.llm_platform.presentation.cli.console import Console
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.presentation.cli.render.progress import LiveAnswer, split_finished

ID = "r"
EVENTS: tuple[ResearchEvent, ...] = (
    Started(request_id=ID),
    Planned(request_id=ID, questions=("one", "two")),
    Searched(request_id=ID, query="one", provider="searxng", count=12, cached=False),
    Searched(request_id=ID, query="two", provider="searxng", count=3, cached=True),
    Ranked(request_id=ID, query="q", kept=()),
    SourcesNumbered(request_id=ID, sources=ANSWER.sources),
    Token(request_id=ID, text=f"{SENTENCE} [1]"),
    Token(request_id=ID, text=" Nobody knows why. [2]"),
)


def permanent(terminal: Terminal) -> str:
    """Return what stays on the terminal: without what rich draws and takes back, and without colours."""
    printed = terminal.getvalue()
    drawn = re.sub(r"\x1b\[\?25l.*?(?:\x1b\[\?25h|\Z)", "", printed, flags=re.DOTALL)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)


def research(console: Console, platform: FakePlatform, *options: str) -> int:
    return run(["research", "What is asyncio?", *options], wiring(platform), console)


class TestWatched:
    def test_progress_goes_to_standard_error(self) -> None:
        """A terminal shows the steps in order, separately from the answer."""
        console, _, err = terminal_console()
        research(console, FakePlatform(events=EVENTS))
        assert err.getvalue().splitlines() == [
            "searching …",
            "searching for: one · two",
            "12 results from searxng",
            "3 results from searxng (cached)",
            "writing from 2 sources …",
        ]

    def test_streamed_answer_is_not_printed_twice(self) -> None:
        """Tokens are shown as they arrive, and the finished answer is not printed again."""
        console, out, _ = terminal_console()
        supported = ANSWER.model_copy(update={"citations": ANSWER.citations[:1]})
        research(console, FakePlatform(answer=supported, events=EVENTS))
        assert permanent(out).count(SENTENCE) == 2  # the answer, and its quote below
        assert "Sources" in permanent(out)

    def test_unsupported_paragraph_is_printed_again_with_its_mark(self) -> None:
        """An unsupported paragraph is already on the screen, so only this paragraph is printed again with its mark,
        above the sources.
        """
        console, out, _ = terminal_console()
        before = "Another paragraph [1].\n\n"
        moved = tuple(
            citation.model_copy(update={"start": citation.start + len(before), "end": citation.end + len(before)})
            for citation in ANSWER.citations
        )
        answer = ANSWER.model_copy(update={"synthesis": before + ANSWER.synthesis, "citations": moved})
        tokens = (*EVENTS[:-2], Token(request_id=ID, text=before), *EVENTS[-2:])
        research(console, FakePlatform(answer=answer, events=tokens))
        screen = " ".join(permanent(out).split())
        assert screen.count("Another paragraph") == 1
        assert screen.count("Nobody knows why. [2] ○ not found") == 1
        assert screen.index("○ not found") < screen.index("Sources")

    def test_token_is_printed_before_the_end(self) -> None:
        """Nobody waits for the last word to read the first."""
        console, out, _ = terminal_console()
        with LiveAnswer(console) as answer:
            answer.feed("The first sentence. ")
            assert "The first sentence." in out.getvalue()
            answer.feed("The second.\n\nA new paragraph")
            assert "The second." in permanent(out)
            assert "A new paragraph" not in permanent(out)
            answer.finish()
        assert "A new paragraph" in permanent(out)

    def test_reset_is_reported_and_the_old_text_stays(self) -> None:
        """When a writer dies half-way its words stay on the screen, with a word that they are void."""
        console, out, err = terminal_console()
        events = (*EVENTS[:-2], Token(request_id=ID, text="Half"), Reset(request_id=ID, reason="died"), *EVENTS[-2:])
        research(console, FakePlatform(events=events))
        assert "the model failed (died)" in err.getvalue()
        assert permanent(out).index("Half") < permanent(out).index(SENTENCE)

    def test_failed_event_ends_with_the_problem_detail(self) -> None:
        """A failed event ends the command as the error itself would have."""
        console, _, err = terminal_console()
        failed = Failed(request_id=ID, problem={"status": 422, "detail": "freshness is not understood"})
        assert research(console, FakePlatform(events=(failed,))) == 2
        assert "llm-platform: freshness is not understood\n" in err.getvalue()

    def test_stream_without_an_answer_is_a_failure(self) -> None:
        """No answer is a failure, not an empty answer."""

        class Silent(FakePlatform):
            def __init__(self) -> None:
                super().__init__()
                self.research.stream = self._silent  # type: ignore[method-assign,assignment]

            async def _silent(self, request: object, *, is_stored: bool) -> object:  # type: ignore[misc]
                for event in EVENTS[:1]:
                    yield event

        console, _, err = terminal_console()
        assert research(console, Silent()) == 1
        assert "without an answer" in err.getvalue()

    def test_error_restores_the_cursor(self) -> None:
        """The cursor that was hidden while drawing is shown again."""
        console, out, _ = terminal_console()
        error = WebSearchConnectionError("gone")
        assert research(console, FakePlatform(answer=error, events=EVENTS)) == 1
        assert out.getvalue().count("\x1b[?25l") == out.getvalue().count("\x1b[?25h") > 0

    def test_control_sequences_of_tokens_are_removed(self) -> None:
        """Escape sequences inside the answer are dropped before anything is drawn."""
        console, out, _ = terminal_console()
        with LiveAnswer(console) as answer:
            answer.feed("a\x1b]0;owned\x07b\x1b[2Jc\x9b1m")
            answer.finish()
        assert "abc" in permanent(out)
        assert "owned" not in out.getvalue()
        assert "\x1b[2J" not in out.getvalue()


class TestUnwatched:
    def test_json_on_a_terminal_is_not_streamed(self) -> None:
        """With --json the steps may be shown, the answer is JSON alone."""
        console, out, err = terminal_console()
        research(console, FakePlatform(events=EVENTS), "--json")
        assert out.getvalue().startswith("{")
        assert "searching …" in err.getvalue()

    def test_pipe_gets_no_progress(self) -> None:
        """Progress is for a person: none looks at a pipe."""
        console, out, err = piped_console()
        research(console, FakePlatform(events=EVENTS))
        assert err.getvalue() == ""
        assert out.getvalue().startswith(MARKED)


class TestSplitFinished:
    @for_each(
        ("text", "split"),
        [
            ("one sentence", ("", "one sentence")),
            ("a\n\nb", ("a", "b")),
            ("a\n \t\nb\n\nc", ("a\n \t\nb", "c")),
            ("a\n\n", ("a", "")),
            ("```py\nx\n\ny", ("", "```py\nx\n\ny")),
            ("a\n\n```py\nx\n\ny", ("a", "```py\nx\n\ny")),
            ("```py\nx\n\ny\n```\n\nb", ("```py\nx\n\ny\n```", "b")),
            ("~~~\n```\n\ny", ("", "~~~\n```\n\ny")),
            ("10. a\n    ```\n    x\n\n    y", ("", "10. a\n    ```\n    x\n\n    y")),
        ],
    )
    def test_block_ends_at_a_blank_line_outside_a_fence(self, text: str, split: tuple[str, str]) -> None:
        """What could still change is not printed for good."""
        assert split_finished(text) == split

    @given(st.lists(st.sampled_from(["a", "\n\n", "```\n", "\n", " b"])))
    def test_split_keeps_all_text_in_order(self, pieces: Sequence[str]) -> None:
        """However the text is split, its visible characters are printed once and in order."""
        out, rest = "", ""
        for piece in pieces:
            finished, rest = split_finished(rest + piece)
            out += finished
        assert "".join((out + rest).split()) == "".join("".join(pieces).split())
