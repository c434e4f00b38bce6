"""The commands `research --output x.sealed.zip` and `verify x.sealed.zip`: files, output and exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.sealed_answers import (
    ANSWERED_AT,
    BRIDGE,
    PUBLIC_KEY,
    SEAL_KEY,
    SOURCES,
    TOWER,
    check_answer,
    make_seals,
    seal_answer,
)
from tests.unit.presentation.cli.fakes import Ended, FakePlatform, PlatformPart, part_wiring, wiring

from modules.llm_platform.application.seals.contents import write_members
from modules.llm_platform.application.services.verification_service import VerificationService
from modules.llm_platform.domain.dtos.source_dtos import StoredSources
from modules.llm_platform.domain.exceptions import PageNotFoundError, VerificationError
from modules.llm_platform.infrastructure.ed25519 import Ed25519Signer
from modules.llm_platform.infrastructure.files import sealed_archive
from modules.llm_platform.presentation.cli.commands.verify_sealed import is_sealed
from modules.llm_platform.presentation.cli.main import run
from modules.llm_platform.testing import FakePageReader, FakeWebSearch

FOLDER = Path(__file__).resolve().parents[5] / "docs" / "explanation"
QUESTION = "When is a cited sentence unsupported?"


class Platform(PlatformPart):
    """A platform that checks sealed answers, and reads the pages of today."""

    def __init__(self, pages: dict[str, str]) -> None:
        self.seals = make_seals()
        self.verification = VerificationService(FakePageReader(pages), FakeWebSearch())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "answer.sealed.zip"


class StoredResearch:
    """A research service that still has the texts of its sources."""

    async def get_stored_sources(self, request_id: str) -> StoredSources:
        return StoredSources(sources=SOURCES)


def verify(capsys: pytest.CaptureFixture[str], *arguments: str | Path, **pages: str) -> Ended:
    code = run(["verify", *map(str, arguments)], part_wiring(Platform(pages)))
    printed = capsys.readouterr()
    return Ended(code, printed.out, printed.err)


def seal(**options: Any) -> bytes:
    return asyncio.run(seal_answer(**options))


def forge(file: Path) -> None:
    """Write an answer with another verdict than the words give."""
    answer = asyncio.run(check_answer())
    lie = answer.citations[1].model_copy(update={"verdict": "supported"})
    forged = answer.model_copy(update={"citations": (answer.citations[0], lie, answer.citations[2])})
    file.write_bytes(make_seals().seal(forged, SOURCES))


def test_an_unchanged_file_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it is, its digest, and the counts."""
    file.write_bytes(seal())
    digest = make_seals().open(file.read_bytes()).digest
    ended = verify(capsys, file, "--strict")
    assert (ended.code, ended.err) == (0, "")
    first, second, third = ended.out.splitlines()
    assert first == "The file is unchanged, answered on 2026-11-26 12:00 UTC. It is not signed."
    assert (second, third) == (f"sha256:{digest}", "4 sentences: 4 same.")


def test_a_different_verdict_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With both verdicts, and exit code 1."""
    forge(file)
    ended = verify(capsys, file)
    assert (ended.code, ended.out.splitlines()[2:]) == (
        1,
        [
            "4 sentences: 3 same, 1 different.",
            "",
            "✘ It was completed in 1899",
            "  [1] different: the verdict differs (was supported, is not supported)",
        ],
    )
    assert ended.err == "llm-platform: 4 sentences: 3 same, 1 different.\n"


def test_a_changed_file_fails(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, with one line: nothing that it says can be relied on."""
    data = bytearray(seal())
    data[100] ^= 1
    file.write_bytes(data)
    ended = verify(capsys, file)
    assert (ended.code, ended.out) == (2, "")
    assert f"{file}: the file was changed after it was sealed" in " ".join(ended.err.split())


def test_the_signer_is_demanded(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Anybody can sign: who must have signed is what --signed-by says."""
    file.write_bytes(seal(sign=Ed25519Signer(SEAL_KEY)))
    signed = verify(capsys, file, "--signed-by", PUBLIC_KEY)
    assert signed.code == 0
    assert f"Signed with the key {PUBLIC_KEY}." in signed.out
    assert verify(capsys, file, "--signed-by", "0" * 64).code == 1
    file.write_bytes(seal())
    assert verify(capsys, file, "--signed-by", PUBLIC_KEY).code == 1
    assert verify(capsys, file, "--signed-by", "me").code == 2


def test_json_has_every_sentence(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the outcome of each of its citations."""
    forge(file)
    checked = json.loads(verify(capsys, file, "--json").out)
    assert checked["counts"] == {"same": 3, "different": 1, "not_derivable": 0}
    assert checked["sealed"]["created"] == ANSWERED_AT.isoformat().replace("+00:00", "Z")
    (citation,) = checked["sentences"][1]["citations"]
    assert (citation["derived"], citation["was"], citation["now"]) == ("different", "supported", "unsupported")


def test_refetch_compares_with_the_pages_of_today(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tower has grown: the file is the same, and its answer no longer holds."""
    file.write_bytes(seal())
    today = {TOWER.url: TOWER.text.replace("330", "342"), SOURCES[1].url: SOURCES[1].text}
    ended = verify(capsys, file, "--refetch", **today)
    assert ended.code == 0
    assert "4 sentences: 4 same." in ended.out
    assert "1 of 3 compared sentences no longer holds" in ended.out
    assert verify(capsys, file, "--refetch", "--strict", **today).code == 1
    refetched = json.loads(verify(capsys, file, "--refetch", "--json", **today).out)["refetched"]
    assert refetched["no_longer_hold"] == 1


def test_refetch_reads_no_documents_of_the_sender(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sender's document paths may name other documents here, or private ones."""
    document = SOURCES[0].model_copy(update={"url": "doc:tower.md"})
    sources = (document, *SOURCES[1:])
    file.write_bytes(make_seals().seal(asyncio.run(check_answer(sources=sources)), sources))
    ended = verify(capsys, file, "--refetch", "--json", **{"doc:tower.md": "Secret", SOURCES[1].url: SOURCES[1].text})
    refetched = json.loads(ended.out)["refetched"]
    assert {source["url"] for source in refetched["sources"]} == {None, SOURCES[1].url}
    assert refetched["no_longer_hold"] == 0
    shown = verify(capsys, file, "--refetch", **{SOURCES[1].url: SOURCES[1].text}).out
    assert shown.endswith("Documents of the sender, which are not compared: [1]\n")
    assert "were not read" not in shown


class GonePages(Platform):
    """A platform whose pages, apart from the given ones, do not exist any more."""

    def __init__(self, pages: dict[str, str]) -> None:
        super().__init__(pages)
        gone = {source.url: PageNotFoundError() for source in SOURCES if source.url not in pages}
        self.verification = VerificationService(FakePageReader(pages | gone), FakeWebSearch())


@pytest.mark.parametrize(
    ("pages", "line"),
    [
        ({}, "No sentence could be compared with a current page"),
        ({BRIDGE.url: BRIDGE.text}, "0 of 1 compared sentence no longer hold"),
    ],
    ids=["none left", "one left"],
)
def test_a_removed_page_is_not_compared(
    pages: dict[str, str], line: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The current content of a removed page is unknown. Its sentences are not counted as changed, and the exit code is 1."""
    file.write_bytes(seal())
    codes = [
        run(["verify", str(file), "--refetch", *more], part_wiring(GonePages(pages))) for more in ((), ("--strict",))
    ]
    printed = capsys.readouterr()
    assert codes == [1, 1]
    assert printed.out.count(line) == 2
    assert "does not exist" in printed.out
    assert f"{2 - len(pages)} of 2 pages cannot be verified again" in printed.err
    assert run(["verify", str(file), "--refetch", "--json"], part_wiring(GonePages(pages))) == 1
    refetched = json.loads(capsys.readouterr().out)["refetched"]
    assert (refetched["changed"], refetched["no_longer_hold"]) == ([], 0)


def test_documents_alone_are_not_compared(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sentences of documents are reported neither as unchanged nor as changed, and no page is reported as unreadable."""
    sources = tuple(source.model_copy(update={"url": f"doc:{source.index}.md"}) for source in SOURCES)
    file.write_bytes(make_seals().seal(asyncio.run(check_answer(sources=sources)), sources))
    ended = verify(capsys, file, "--refetch", "--strict")
    assert (ended.code, ended.err) == (0, "")
    assert "No sentence could be compared with a current page" in ended.out
    assert "hold" not in ended.out


def test_refetch_that_fails_keeps_what_was_derived(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdicts of the file need no network. --offline and --refetch exclude each other."""
    file.write_bytes(seal())

    class Failing(Platform):
        def __init__(self) -> None:
            super().__init__({})
            self.verification = self  # type: ignore[assignment]

        async def verify_answer_again(self, *_: object, **__: object) -> None:
            raise VerificationError("The text has too many sentences")

    code = run(["verify", str(file), "--refetch"], part_wiring(Failing()))
    printed = capsys.readouterr()
    assert (code, "4 sentences: 4 same." in printed.out) == (1, True)
    assert "too many sentences" in printed.err
    assert verify(capsys, file, "--refetch", "--offline").code == 2


def test_the_exit_code_says_what_was_found(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit codes are 0 for no difference, 1 for a difference, and 2 for an unreadable file.

    --strict also fails for verdicts that cannot be derived.
    """
    whole = seal(sign=Ed25519Signer(SEAL_KEY))
    members = sealed_archive.unpack(whole).members
    foreign = Ed25519Signer(SEAL_KEY)("0" * 64)
    answer = asyncio.run(check_answer())
    without = make_seals().seal(answer.model_copy(update={"citations": ()}), SOURCES)
    seal_opened = make_seals().open(whole)
    other_program = seal_opened.answer.checker.model_copy(update={"page": "0" * 64})
    other_answer = seal_opened.answer.model_copy(update={"checker": other_program})
    for data, code, strict in (
        (whole, 0, 0),
        (sealed_archive.pack(members, lambda _: foreign), 1, 1),
        (sealed_archive.pack({**members, "index.html": b"<p>Another</p>"}), 1, 1),
        (sealed_archive.pack(write_members(other_answer, seal_opened.sources, "<p>Another</p>")), 0, 1),
        (without, 0, 1),
        (whole[:-1], 2, 2),
        (b"PK\x03\x04", 2, 2),
        (b"The tower is 330 metres tall.", 2, 2),
    ):
        file.write_bytes(data)
        assert (verify(capsys, file).code, verify(capsys, file, "--strict").code) == (code, strict)
    file.write_bytes(sealed_archive.pack(members, lambda _: foreign))
    checked = json.loads(verify(capsys, file, "--json").out)
    assert set(checked) == {"sealed", "sentences", "counts"}
    assert {"digest", "created", "checker", "signature"} <= set(checked["sealed"])
    assert checked["sealed"]["signature"] == "invalid"
    assert {sentence["derived"] for sentence in checked["sentences"]} == {"same"}


def test_a_missing_package_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signature that could not be checked is not reported as a wrong one."""
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    signature = Ed25519Signer(SEAL_KEY)
    file.write_bytes(seal(sign=signature))
    ended = verify(capsys, file, "--signed-by", PUBLIC_KEY)
    assert (ended.code, 'pip install "llm-platform[seal]"' in ended.out) == (1, True)
    assert "--signed-by cannot be checked" in ended.err


def test_a_pipe_keeps_its_text(tmp_path: Path) -> None:
    """Looking for a zip file would take its first bytes away."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not is_sealed(pipe)


def test_an_answer_that_cannot_be_sealed_is_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may have cost money."""

    platform = FakePlatform(answer=asyncio.run(check_answer()))
    platform.seals = make_seals(secrets=["1280 metres"], research=StoredResearch())
    code = run(["research", "How tall?", "--output", str(file), "--yes"], wiring(platform))
    printed = capsys.readouterr()
    assert (code, "330 metres tall" in printed.out, file.exists()) == (1, True, False)
    assert "contains a secret" in printed.err


def test_a_signer_that_is_missing_costs_no_answer(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is loaded before the question is asked."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    platform = FakePlatform()
    signer = Ed25519Signer(SEAL_KEY)
    platform.seals = make_seals(sign=signer)  # type: ignore[attr-defined]
    code = run(["research", "How tall?", "--output", str(file), "--yes"], wiring(platform))
    assert (code, platform.research.requests) == (1, [])
    assert 'pip install "llm-platform[seal]"' in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("--find-sources",), ("--github",), ("--language", "en"), ("--output", "a.md")])
def test_options_of_texts_are_refused(
    file: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """They would do nothing."""
    file.write_bytes(seal())
    ended = verify(capsys, file, *arguments)
    assert (ended.code, "sealed answer" in ended.err) == (2, True)


@pytest.mark.parametrize("option", [("--refetch",), ("--signed-by", PUBLIC_KEY)])
def test_options_of_sealed_answers_are_refused_for_texts(
    tmp_path: Path, option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """And so would these."""
    (tmp_path / "a.md").write_text("The tower is 330 metres tall.", encoding="utf-8")
    ended = verify(capsys, tmp_path / "a.md", *option)
    assert (ended.code, "sealed answer" in ended.err) == (2, True)


def test_a_search_is_not_sealed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no answer to check: the name is refused before anything is searched."""
    code = run(["search", "q", "--output", str(tmp_path / "a.sealed.zip")], part_wiring(Platform({})))
    assert (code, "which `research`" in " ".join(capsys.readouterr().err.split())) == (2, True)


def test_an_answer_is_sealed_and_checked_by_the_command(tmp_path: Path) -> None:
    """The command seals an answer offline, without a key, from a folder, and checks it in processes with other locales,
    another time zone and another hash seed.
    """

    def command(*arguments: str, **variables: str) -> str:
        known: dict[str, Any] = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        ended = subprocess.run(
            [sys.executable, "-m", "modules.llm_platform", *arguments],
            cwd=tmp_path,
            env={**known, "HOME": str(tmp_path), "LLM_PLATFORM_DATA_DIR": str(tmp_path / "data"), **variables},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    command(
        "research", QUESTION, "--documents", str(FOLDER), "--offline", "--output", "a.sealed.zip", SEAL_KEY=SEAL_KEY
    )
    for locale in ("C", "de_DE.UTF-8"):
        seen = {"LC_ALL": locale, "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7", "PYTHONUTF8": "1"}
        checked = json.loads(command("verify", "a.sealed.zip", "--offline", "--json", **seen))
        assert set(checked["counts"]) == {"same", "different", "not_derivable"}
        assert checked["counts"]["same"] == len(checked["sentences"]) > 0
        sealed = checked["sealed"]
        assert (sealed["is_same_page"], sealed["is_same_checker"], sealed["signature"]) == (True, True, "valid")
    whole = (tmp_path / "a.sealed.zip").read_bytes()
    assert SEAL_KEY.encode() not in whole
