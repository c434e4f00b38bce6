"""Words of passages are the same ones wherever they are weighed, and nothing is lost with the process beside us."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.llm_platform.domain.bm25 import passage_words
from modules.llm_platform.infrastructure.vectors import word_weights
from modules.llm_platform.infrastructure.vectors.word_weights import WordWeights

TEXTS = ["Call asyncio.run() once", "", "Straße 向量数据库 ﬁne", "\ud800 half a pair", "word " * 50_000]
EXPECTED = [passage_words(text) for text in TEXTS]


@pytest.fixture
def words() -> Iterator[WordWeights]:
    weights = WordWeights(here=0)
    yield weights
    weights.close()


def test_a_process_beside_us_says_the_same(words: WordWeights) -> None:
    """The first texts are weighed while it starts, all later ones by it."""
    assert words.of(TEXTS)() == EXPECTED
    child = words._child
    assert child is not None
    assert [words.of(TEXTS)() for _ in range(3)] == [EXPECTED] * 3
    assert words._child is child
    assert child.poll() is None


def test_a_few_passages_start_nothing() -> None:
    """It would take longer than they do."""
    words = WordWeights(here=len(TEXTS) + 1)
    assert words.of(TEXTS)() == EXPECTED
    assert words._child is None


def test_a_process_that_is_gone_is_done_without(words: WordWeights) -> None:
    """Killed before it is asked or before it answers: the words are weighed here, and it is not started again."""
    words.of(["start"])()
    child = words._child
    assert child is not None
    asked = words.of(TEXTS)
    child.kill()
    assert asked() == EXPECTED
    assert words.of(TEXTS)() == EXPECTED
    assert words._child is None


@pytest.mark.parametrize(
    "program",
    [
        [str(Path(__file__).parent / "no-such-program")],
        [sys.executable, "-c", ""],
        [sys.executable, "-c", "import sys; sys.stdin.buffer.read(20); sys.stdout.buffer.write(b'\\5\\0\\0\\0abc')"],
        [
            sys.executable,
            "-c",
            "import sys; sys.stdin.buffer.read(20); sys.stdout.buffer.write(b'\\5\\0\\0\\0[\\0\\0\\0\\0')",
        ],
    ],
    ids=["none", "ends", "breaks off", "answers too little"],
)
def test_a_process_that_fails_is_done_without(program: list[str]) -> None:
    """Not there, ended at once, broken off, or answering another question."""
    words = WordWeights(program, here=0)
    assert [words.of(TEXTS)() for _ in range(3)] == [EXPECTED] * 3
    assert words._child is None


@pytest.mark.parametrize("text", ["short", "longer than a pipe holds " * 40_000])
def test_a_process_that_stands_still_is_ended(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it does not read or does not answer, nobody waits for it for ever."""
    monkeypatch.setattr(word_weights, "ANSWER_S", 0.2)
    words = WordWeights([sys.executable, "-c", "import time; time.sleep(600)"], here=0)
    assert [words.of([text])() for _ in range(3)] == [[passage_words(text)]] * 3
    assert words._child is None


def test_closing_ends_the_process(words: WordWeights) -> None:
    """And a later use starts another one."""
    words.of(["start"])()
    first = words._child
    assert first is not None
    words.close()
    assert first.poll() is not None
    words.of(["again"])()
    assert words._child not in (None, first)


def test_the_process_ends_with_its_input(words: WordWeights) -> None:
    """As when we were killed."""
    words.of(["start"])()
    child = words._child
    assert child is not None
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(timeout=60) == 0
