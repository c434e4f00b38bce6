"""A running research on a terminal: steps beside the answer, the answer as it is written, and never twice."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
from modules.llm_platform.presentation.cli.exit_codes import CommandError
from modules.llm_platform.presentation.cli.output import Delivery
from modules.llm_platform.presentation.cli.progress import LiveAnswer, split_finished
from modules.llm_platform.presentation.cli.research_command import ResearchOptions, run_research

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
    """What stays on the terminal: without what rich draws and takes back, and without colours."""
    shown = terminal.getvalue()
    drawn = re.sub(r"\x1b\[\?25l.*?(?:\x1b\[\?25h|\Z)", "", shown, flags=re.DOTALL)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)


def research(console: Console, platform: FakePlatform, delivery: Delivery | None = None) -> None:
    order = ResearchOptions(question="What is asyncio?")
    run_research(console, wiring(platform), {}, order, delivery or Delivery())


class TestWatched:
    def test_steps_go_to_standard_error(self) -> None:
        """A person who watches sees what is done, in order, beside the answer."""
        console, _, err = terminal_console()
        research(console, FakePlatform(events=EVENTS))
        assert err.getvalue().splitlines() == [
            "searching …",
            "asking: one · two",
            "12 results from searxng",
            "3 results from searxng (cached)",
            "writing from 2 sources …",
        ]

    def test_the_answer_stays_once(self) -> None:
        """Tokens are shown as they come; the finished answer is not printed again."""
        console, out, _ = terminal_console()
        supported = ANSWER.model_copy(update={"citations": ANSWER.citations[:1]})
        research(console, FakePlatform(answer=supported, events=EVENTS))
        assert permanent(out).count(SENTENCE) == 2  # the answer, and its quote below
        assert "Sources" in permanent(out)

    def test_an_unsupported_sentence_is_marked_once_it_was_checked(self) -> None:
        """Its paragraph stands on the screen already: it is shown again with the mark, above the sources, and no other."""
        console, out, _ = terminal_console()
        before = "Another paragraph [1].\n\n"
        moved = tuple(
            each.model_copy(update={"start": each.start + len(before), "end": each.end + len(before)})
            for each in ANSWER.citations
        )
        answer = ANSWER.model_copy(update={"synthesis": before + ANSWER.synthesis, "citations": moved})
        tokens = (*EVENTS[:-2], Token(request_id=ID, text=before), *EVENTS[-2:])
        research(console, FakePlatform(answer=answer, events=tokens))
        screen = " ".join(permanent(out).split())
        assert screen.count("Another paragraph") == 1
        assert screen.count("Nobody knows why. [2] ✘ unsupported") == 1
        assert screen.index("✘ unsupported") < screen.index("Sources")

    def test_a_token_is_seen_before_the_end(self) -> None:
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

    def test_a_reset_is_told(self) -> None:
        """When a writer dies half-way its words stay on the screen, with a word that they are void."""
        console, out, err = terminal_console()
        events = (*EVENTS[:-2], Token(request_id=ID, text="Half"), Reset(request_id=ID, reason="died"), *EVENTS[-2:])
        research(console, FakePlatform(events=events))
        assert "the writer gave up (died)" in err.getvalue()
        assert permanent(out).index("Half") < permanent(out).index(SENTENCE)

    def test_a_failure_is_the_problem_in_words(self) -> None:
        """A failed event ends the command as the error itself would have."""
        console, _, _ = terminal_console()
        failed = Failed(request_id=ID, problem={"status": 422, "detail": "freshness is not understood"})
        with pytest.raises(CommandError, match="freshness is not understood") as caught:
            research(console, FakePlatform(events=(failed,)))
        assert caught.value.code == 2

    def test_a_stream_that_ends_without_a_word(self) -> None:
        """No answer is a failure, not an empty answer."""

        class Silent(FakePlatform):
            def __init__(self) -> None:
                super().__init__()
                self.research.stream = self._silent  # type: ignore[method-assign,assignment]

            async def _silent(self, request: object) -> object:  # type: ignore[misc]
                for event in EVENTS[:1]:
                    yield event

        console, _, _ = terminal_console()
        with pytest.raises(CommandError, match="without an answer"):
            research(console, Silent())

    def test_an_error_leaves_the_terminal_as_it_was(self) -> None:
        """The cursor that was hidden while drawing is shown again."""
        console, out, _ = terminal_console()
        error = WebSearchConnectionError("gone")
        with pytest.raises(CommandError, match="gone"):
            research(console, FakePlatform(answer=error, events=EVENTS))
        assert out.getvalue().count("\x1b[?25l") == out.getvalue().count("\x1b[?25h") > 0

    def test_hostile_tokens_cannot_steer(self) -> None:
        """Escape sequences inside the answer are dropped before anything is drawn."""
        console, out, _ = terminal_console()
        with LiveAnswer(console) as answer:
            answer.feed("a\x1b]0;owned\x07b\x1b[2Jc\x9b1m")
            answer.finish()
        assert "abc" in permanent(out)
        assert "owned" not in out.getvalue()
        assert "\x1b[2J" not in out.getvalue()


class TestUnwatched:
    def test_json_on_a_terminal_is_not_streamed_to_it(self) -> None:
        """With --json the steps may be shown, the answer is JSON alone."""
        console, out, err = terminal_console()
        research(console, FakePlatform(events=EVENTS), Delivery(as_json=True))
        assert out.getvalue().startswith("{")
        assert "searching …" in err.getvalue()

    def test_a_pipe_gets_no_steps(self) -> None:
        """Progress is for a person: none looks at a pipe."""
        console, out, err = piped_console()
        research(console, FakePlatform(events=EVENTS))
        assert err.getvalue() == ""
        assert out.getvalue().startswith(MARKED)


class TestSplitFinished:
    @pytest.mark.parametrize(
        ("text", "split"),
        [
            ("one sentence", ("", "one sentence")),
            ("a\n\nb", ("a", "b")),
            ("a\n \t\nb\n\nc", ("a\n \t\nb", "c")),
            ("a\n\n", ("a", "")),
            ("```py\nx\n\ny", ("", "```py\nx\n\ny")),
            ("a\n\n```py\nx\n\ny", ("a", "```py\nx\n\ny")),
            ("```py\nx\n\ny\n```\n\nb", ("```py\nx\n\ny\n```", "b")),
        ],
    )
    def test_a_block_ends_at_a_blank_line_outside_a_fence(self, text: str, split: tuple[str, str]) -> None:
        """What could still change is not printed for good."""
        assert split_finished(text) == split

    @given(st.lists(st.sampled_from(["a", "\n\n", "```\n", "\n", " b"])))
    def test_nothing_is_lost_or_doubled(self, pieces: Sequence[str]) -> None:
        """However the text arrives, its visible characters come out once and in order."""
        out, rest = "", ""
        for piece in pieces:
            finished, rest = split_finished(rest + piece)
            out += finished
        assert "".join((out + rest).split()) == "".join("".join(pieces).split())
