"""The command `verify`: its output for people, programs and CI, and its failures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.unit.presentation.cli.fakes import PlatformPart, part_wiring

from modules.llm_platform.application.services.page_service import PageService
from modules.llm_platform.application.services.verification_service import VerificationService
from modules.llm_platform.application.verification.text_verification import VerificationOptions
from modules.llm_platform.domain.dtos.answer_dtos import ResearchMetadata, ResearchResponse
from modules.llm_platform.domain.dtos.citation_dtos import Citation, Difference, TextSpan
from modules.llm_platform.domain.dtos.request_dtos import ResearchRequest
from modules.llm_platform.domain.dtos.research_job_dtos import ResearchJobDetail
from modules.llm_platform.domain.dtos.source_dtos import SourceRef
from modules.llm_platform.domain.dtos.verification_dtos import (
    VerificationCounts,
    VerificationMetadata,
    VerifiedSentence,
    VerifiedSource,
    VerifiedText,
)
from modules.llm_platform.domain.dtos.web_search_dtos import WebSearchResultItem
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.presentation.verification_text import describe_verdict
from modules.llm_platform.testing import FakePageReader, FakeWebSearch
from modules.llm_platform.testing.page_reader import READ_AT

URL = "https://a.example/tower"
PAGES = {
    URL: "The Eiffel Tower is 330 metres tall. It was completed in 1889.",
    "doc:notes/tower.md": "The tower has 1665 steps to the top.",
}
TEXT = f"# Tower\n\nThe Eiffel Tower is 330 metres tall [1].\nIt was completed in 1899 [1]. It is dead [2].\n\n[1] {URL}\n[2] https://a.example/dead\n"


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class Platform(PlatformPart):
    """A platform that verifies texts and reads documents."""

    def __init__(self, pages: Mapping[str, str], documents: Sequence[str] = ()) -> None:
        reader = FakePageReader(pages)
        self.result_pages = PageService(reader)
        self.research_jobs: object = None
        search = FakeWebSearch([WebSearchResultItem(title="Tower", url=url) for url in documents])
        options = VerificationOptions(searches_documents=bool(documents))
        self.verification = VerificationService(reader, search, options=options)


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Ended]:
    def call(*arguments: str, text: str = TEXT, documents: Sequence[str] = ()) -> Ended:
        file = tmp_path / "answer.md"
        file.write_text(text, encoding="utf-8")
        code = run(["verify", str(file), *arguments], part_wiring(Platform(PAGES, documents), []))
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return call


def test_doubted_sentences_are_printed_with_their_reason(verify: Callable[..., Ended]) -> None:
    """Counts first, then each sentence to look at with its line, what differs, and the quote."""
    ended = verify()
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "3 sentences: 1 supported, 1 contradicted, 1 not checked. 1 of 2 sources read.",
        "",
        "✘ line 4: It was completed in 1899",
        "  contradicted by [1]: the source says “1889”, the text says “1899”",
        "  “It was completed in 1889.”",
        "",
        "? line 4: It is dead",
        "  not checked: [2] has no text (There is no such page)",
        "",
        "Sources that were not read",
        "[2] https://a.example/dead: has no text (There is no such page)",
    ]


def test_a_sentence_in_another_language_than_its_source_says_so(verify: Callable[..., Ended]) -> None:
    text = f"Der Turm ist sehr alt und steht in der Stadt an einem Fluss [1].\n\n[1] {URL}\n"
    assert (
        "  not checked: [1] is in another language, so the sentence was not compared with it"
        in verify(text=text).out.splitlines()
    )


def test_strict_fails_where_a_sentence_is_not_supported(verify: Callable[..., Ended]) -> None:
    """Exit code 1 and one line say so; without such a sentence it is 0."""
    failed = verify("--strict")
    assert (failed.code, failed.err) == (
        1,
        "llm-platform: 1 of 3 sentences is not supported by its sources, 1 of them contradicted\n",
    )
    assert verify("--strict", text=f"The Eiffel Tower is 330 metres tall {URL}").code == 0


def test_annotations_name_the_lines(verify: Callable[..., Ended]) -> None:
    """GitHub shows each annotation at its line. Line ends and colons are escaped in GitHub's syntax."""
    lines = verify("--github").out.splitlines()
    assert lines[0].startswith("::error file=")
    assert lines[0].endswith(
        "line=4,endLine=4,title=Citation::contradicted by [1]: the source says “1889”, the text says “1899”: It was completed in "
        "1899"
    )
    assert lines[1].startswith("::notice ")


def test_documents_of_a_folder_are_sources(verify: Callable[..., Ended], tmp_path: Path) -> None:
    """Sentences without a citation are compared with them, and links to a file cite it."""
    folder = tmp_path / "sources"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "tower.md").write_text("on disk")
    text = "The tower has 1665 steps to the top. The tower has 1765 steps to the top ([notes](notes/tower.md))."
    ended = verify("--sources", str(folder), text=text)
    assert "1 supported, 1 contradicted" in ended.out
    assert "contradicted by notes/tower.md: the source says “1665”, the text says “1765”" in ended.out
    listed = verify(
        "--sources", str(folder), text="The tower has 1665 steps to the top [1].\n\nSources\n[1] notes/tower.md\n"
    )
    assert listed.out == "1 sentence: 1 supported. 1 of 1 source read.\n"
    for name in ("report.md", "report.html"):  # a file of the folder has no address
        verify("--sources", str(folder), "--output", str(tmp_path / name), text=text)
        written = (tmp_path / name).read_text()
        assert "notes/tower.md: read" in written
        assert not re.search(r"``|<code></code>", written)


def test_json_numbers_documents_after_the_sources_of_the_text(verify: Callable[..., Ended], tmp_path: Path) -> None:
    """As in the answer of `POST /verify`: small numbers, and `doc:` addresses. A file that the text lists keeps its number."""
    folder = tmp_path / "sources"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "tower.md").write_text("on disk")
    text = f"The Eiffel Tower is 330 metres tall [2]. The tower has 1665 steps to the top.\n\n[2] {URL}\n"
    result = json.loads(verify("--sources", str(folder), "--json", text=text).out)
    assert [(source["index"], source["url"]) for source in result["sources"]] == [(2, URL), (3, "doc:notes/tower.md")]
    assert [sentence["citations"][0]["source_index"] for sentence in result["sentences"]] == [2, 3]
    listed = "The tower has 1665 steps to the top [1].\n\nSources\n[1] notes/tower.md\n"
    result = json.loads(verify("--sources", str(folder), "--json", text=listed).out)
    assert [(source["index"], source["url"]) for source in result["sources"]] == [(1, "doc:notes/tower.md")]


def test_a_text_without_sources_says_what_is_missing(verify: Callable[..., Ended]) -> None:
    """One line on standard error names the option, and the exit code stays 0."""
    ended = verify("--offline", text="The tower has 1665 steps to the top.")
    assert ended.code == 0
    assert "0 of 0 sources read" in ended.out
    assert "--sources DIR" in ended.err
    assert json.loads(verify("--json", text="The tower has 1665 steps to the top.").out)["sources"] == []


@pytest.mark.parametrize(
    ("folder", "documents"), [("", "the indexed documents"), ("sources", "the documents of DOCUMENTS_DIR")]
)
def test_a_text_compared_with_own_documents_says_so(
    verify: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, documents: str
) -> None:
    """A text without sources is compared with the documents that are configured. Nothing is said about a text with sources."""
    monkeypatch.setenv("DOCUMENTS_DIR", str(tmp_path) if folder else "")
    own = ["doc:notes/tower.md"]
    ended = verify(text="The tower has 1665 steps to the top.", documents=own)
    assert "1 supported" in ended.out
    assert ended.err == (
        f"The text cites no source, so it was compared with {documents}. To compare it with others, use --sources DIR.\n"
    )
    assert verify(documents=own).err == ""


def test_a_sentence_in_other_words_is_not_found_in_its_source() -> None:
    """A difference that is no contradiction follows the same words as a missing sentence."""
    said, quote = "The hall opens at noon", "The hall opens at dawn"
    span = TextSpan(start=18, end=22)
    difference = Difference(claimed=span, found=span, kind="other")
    citation = Citation(
        start=0,
        end=22,
        source_index=1,
        quote=quote,
        quote_end=22,
        verdict="unsupported",
        score=0.1,
        difference=difference,
    )
    sentence = VerifiedSentence(
        start=0, end=22, verdict="unsupported", is_cited=True, citations=(citation,), difference=difference
    )
    source = VerifiedSource(index=1, title="hall.txt", state="read", text_kind="document")
    verified = VerifiedText(
        sentences=(sentence,),
        sources=(source,),
        counts=VerificationCounts(),
        metadata=VerificationMetadata(latency_ms=1),
    )
    assert (
        describe_verdict(said, sentence, verified)
        == "not found in hall.txt: the source says “dawn”, the text says “noon”"
    )


def test_files_have_the_whole_report(verify: Callable[..., Ended], tmp_path: Path) -> None:
    """HTML without a script, Markdown, and the JSON of the HTTP interface."""
    for name in ("report.html", "report.md", "report.json"):
        assert verify("--output", str(tmp_path / name)).code == 0
    page = (tmp_path / "report.html").read_text()
    assert (
        '<span class="unsupported" title="contradicted by [1]: the source says “1889”, the text says “1899”">' in page
    )
    assert "<script" not in page
    assert "the source says “1889”" in (tmp_path / "report.md").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["counts"]["unsupported"] == 1
    assert json.loads(verify("--json").out)["counts"]["sentences"] == 3


@pytest.mark.parametrize("text", ["", "…", "a" * 100_001])
def test_texts_that_cannot_be_verified_are_wrong_use(verify: Callable[..., Ended], text: str) -> None:
    """Exit code 2, before anything is read."""
    ended = verify(text=text)
    assert ended.code == 2
    assert "FILE" in ended.err
    assert "--text" not in ended.err


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_called_empty(verify: Callable[..., Ended], text: str) -> None:
    """The message is about the text of the file, and not about its name."""
    assert "answer.md is empty" in " ".join(verify(text=text).err.split())


def test_documents_are_named_by_another_option(verify: Callable[..., Ended]) -> None:
    ended = verify("--documents", "docs")
    assert (ended.code, ended.out) == (2, "")
    assert "No such option: --documents. Name the folder with --sources." in ended.err


@pytest.mark.parametrize("name", ["answer.html", "answer.json", "Answer.DOCX", "answer.pdf"])
def test_a_file_with_markup_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    """Its tags would be sentences that nothing supports, and a Word document a sealed answer that was changed."""
    file = tmp_path / name
    file.write_bytes(b"PK\x03\x04" if name == "Answer.DOCX" else b"<p>It is so.</p>")
    assert run(["verify", str(file)], part_wiring(Platform(PAGES), [])) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "is neither Markdown nor plain text" in printed.err


def _make_stored_answer() -> ResearchJobDetail:
    text = "It was completed in 1899 [1]."
    quote = "It was completed in 1899."
    was = Citation(start=0, end=24, source_index=1, quote=quote, quote_end=len(quote), verdict="supported", score=1.0)
    response = ResearchResponse(
        query="When?",
        depth="shallow",
        synthesis=text,
        citations=(was,),
        sources=(SourceRef(index=1, title="Tower", url=URL),),
        metadata=ResearchMetadata(latency_ms=1),
    )
    return ResearchJobDetail(
        id="abc",
        status="done",
        query="When?",
        depth="shallow",
        created_at=READ_AT,
        finished_at=READ_AT,
        request=ResearchRequest(query="When?"),
        response=response,
    )


def test_a_stored_answer_is_compared_with_its_pages(capsys: pytest.CaptureFixture[str]) -> None:
    """How many sentences no longer hold, both quotes with their dates, and exit code 1 with --strict."""
    platform = Platform(PAGES)
    platform.research_jobs = _Jobs(_make_stored_answer())
    code = run(["verify", "--research", "abc", "--strict"], part_wiring(platform, []))
    printed = capsys.readouterr()
    assert (code, printed.err) == (1, "llm-platform: 1 of 1 sentence no longer holds\n")
    lines = printed.out.splitlines()
    assert lines[0] == "1 of 1 sentence no longer holds"
    assert lines[3] == f"  was supported on {READ_AT:%Y-%m-%d}: “It was completed in 1899.”"
    assert lines[4].startswith("  is not supported on ")
    assert lines[4].endswith("“It was completed in 1889.”")


def test_a_stored_answer_whose_pages_cannot_be_read_is_not_verified(capsys: pytest.CaptureFixture[str]) -> None:
    """With --strict a crontab line must not stay silent."""
    platform = Platform({})
    platform.research_jobs = _Jobs(_make_stored_answer())
    code = run(["verify", "--research", "abc", "--strict"], part_wiring(platform, []))
    printed = capsys.readouterr()
    assert (code, printed.err) == (1, "llm-platform: 1 of 1 source could not be read\n")
    assert printed.out.splitlines()[0] == "No sentence could be compared with a current page"


@pytest.mark.parametrize("arguments", [[], ["a.md", "--research", "abc"]])
def test_either_a_file_or_a_stored_answer(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """Both or none is wrong use."""
    assert run(["verify", *arguments], part_wiring(Platform(PAGES), [])) == 2
    assert "--research ID" in capsys.readouterr().err


class _Jobs:
    """Has one stored research run."""

    def __init__(self, job: ResearchJobDetail) -> None:
        self._job = job

    async def get(self, research_id: str, *, owner: str = "") -> ResearchJobDetail:
        assert research_id == self._job.id
        return self._job
