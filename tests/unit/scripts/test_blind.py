"""scripts/blind.py: two variants are asked, and nothing on the sheet tells which is which."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import blind
from scripts.blind_asking import Answer, Variant, VariantError, parse_variant
from scripts.blind_scoring import VARIANTS
from scripts.blind_sheet import Asked, read_questions, read_sheet
from tests.support.cases import for_each

NOTE = "Tides are caused by the moon. The moon pulls at the water of the sea, so it rises twice a day."
QUESTIONS = [Asked(f"Question {number}?") for number in range(20)]


def answers(**texts: str) -> dict[str, list[Answer]]:
    return {name: [Answer(f"{text} {n}", 1.0, 3, f"writer-{name}") for n in range(20)] for name, text in texts.items()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of documents and questions about it, to be worked in."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tides.md").write_text(f"# Tides\n\n{NOTE}\n", encoding="utf-8")
    (tmp_path / "questions.txt").write_text("What causes the tides?\n~ How often does it rise?\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(folder: Path, *more: str) -> int:
    usual = ["--questions", "questions.txt", "--documents", "notes", "--offline", "--out", "out"]
    return blind.main(["write", *usual, "--b", "depth=deep", *more])


class TestVariants:
    @for_each(
        ("text", "request_fields", "settings"),
        [
            ("depth=shallow", {"depth": "shallow"}, {}),
            ("depth=report instructions='In two words.'", {"depth": "report", "instructions": "In two words."}, {}),
            (
                "depth=report max_llm_calls=3 REPORT_PAGES=2",
                {"depth": "report", "max_llm_calls": 3},
                {"REPORT_PAGES": "2"},
            ),
            ("sources=web,news fresh=true", {"sources": ("web", "news"), "fresh": True}, {}),
            ("model=gpt-5", {}, {"LLM_MODEL": "gpt-5"}),
            (
                "documents=notes",
                {"sources": ("documents",)},
                {"DOCUMENTS_DIR": "notes", "SEARCH_PROVIDERS": "documents"},
            ),
        ],
    )
    def test_what_a_variant_says(self, text: str, request_fields: dict, settings: dict) -> None:
        """Small letters are fields of the request, capitals variables of the settings."""
        assert parse_variant(text) == Variant(text, request_fields, settings)

    @for_each("text", ["depth", "depth=", "colour=red", "query=x", "instructions='open"])
    def test_what_cannot_be_said_is_refused(self, text: str) -> None:
        """A misspelt name would compare a variant with itself."""
        with pytest.raises(VariantError):
            parse_variant(text)

    def test_a_model_of_the_list_answers_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Failover would let one model answer for the other; a name that is not listed is refused."""
        listed = [
            {"name": name, "kind": "ollama", "base_url": "http://127.0.0.1:9/v1", "model": f"m-{name}"} for name in "xy"
        ]
        monkeypatch.setenv("LLM_PROVIDERS", json.dumps(listed))
        for chosen in ("y", "m-y"):
            (only,) = parse_variant(f"model={chosen}").settings["LLM_PROVIDERS"]
            assert only.name == "y"
        with pytest.raises(VariantError, match="LLM_PROVIDERS"):
            parse_variant("model=z")

    def test_a_model_is_that_of_the_service_that_is_configured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where only Kimi is there, its model is meant."""
        monkeypatch.setenv("KIMI_API_KEY", "sk-kimi-0123456789")
        assert parse_variant("model=k2").settings == {"KIMI_MODEL": "k2"}


class TestOrder:
    def test_each_variant_stands_first_in_half_of_the_questions(self) -> None:
        """Reading order favours neither; an odd question goes to one of them."""
        for seed in range(20):
            assert Counter(blind.orders(20, seed)) == {"a": 10, "b": 10}
        assert sorted(Counter(blind.orders(5, 1)).values()) == [2, 3]

    def test_the_order_is_by_chance_and_the_seed_s(self) -> None:
        """One seed gives one order, others give others: nobody can know it without the key."""
        assert blind.orders(20, 7) == blind.orders(20, 7)
        assert len({tuple(blind.orders(20, seed)) for seed in range(20)}) == 20

    def test_the_key_tells_which_answer_is_whose(self) -> None:
        """What stands under answer 1 is by the variant that the key names first."""
        variants = {"a": Variant("depth=shallow"), "b": Variant("depth=report")}
        sheet, key = blind.sheet_and_key(QUESTIONS, answers(a="Short", b="Long"), variants, 3)
        firsts = re.findall(r"### Answer 1\n\n> (Short|Long) (\d+)", sheet)
        words = {"a": "Short", "b": "Long"}
        assert firsts == [(words[row["first"]], str(n)) for n, row in enumerate(key["questions"])]
        assert key["sheet"] == read_sheet(sheet)[0]
        assert key["variants"] == {"a": "depth=shallow", "b": "depth=report"}

    def test_the_sheet_names_no_variant(self) -> None:
        """Neither the variants, nor who wrote, nor what it took."""
        variants = {"a": Variant("depth=shallow"), "b": Variant("model=gpt-5")}
        sheet, _ = blind.sheet_and_key(QUESTIONS, answers(a="Short", b="Long"), variants, 3)
        assert not re.search(r"depth=|gpt-5|writer-|seconds|tokens", sheet)


class TestWriting:
    def test_from_questions_to_a_score_without_a_key_or_a_network(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Both variants quote the documents; a person fills the sheet in; the score names the variants again."""
        assert run(folder, "--seed", "1") == 0
        sheet = folder / "out" / "sheet.md"
        text = sheet.read_text(encoding="utf-8")
        assert text.count("Tides are caused by the moon") == 2
        assert text.count("### Answer") == 4
        first = json.loads((folder / "out" / "key.json").read_text())["questions"][0]["first"]
        sheet.write_text(re.sub(r"(?m)^(- better .*: )$", r"\g<1>1", text, count=1), encoding="utf-8")
        capsys.readouterr()
        assert blind.main(["score", str(sheet)]) == 0
        said = capsys.readouterr().out
        assert said.startswith("1 of 2 questions judged\nA  depth=shallow\n")
        assert "written by extractive (2)" in said
        wins = re.findall(r"better in (\d)", said)
        assert wins == ["1" if name == first else "0" for name in VARIANTS]

    def test_judgements_are_never_written_over(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A second run replaces an empty sheet and refuses a filled-in one."""
        assert run(folder) == run(folder) == 0
        sheet = folder / "out" / "sheet.md"
        judged = re.sub(r"(?m)^(- better .*: )$", r"\g<1>2", sheet.read_text(encoding="utf-8"), count=1)
        sheet.write_text(judged, encoding="utf-8")
        assert run(folder) == blind.WRONG_USE
        assert sheet.read_text(encoding="utf-8") == judged
        assert "holds judgements" in capsys.readouterr().err

    def test_nothing_to_answer_from_is_an_answer_of_its_own(self, folder: Path) -> None:
        """A failure stands on the sheet as what it is, and the key counts it."""
        assert run(folder, "--a", "documents=missing") == 0
        rows = json.loads((folder / "out" / "key.json").read_text())["questions"]
        assert [row["a"]["failed"] for row in rows] == [True, True]
        assert (folder / "out" / "sheet.md").read_text(encoding="utf-8").count("(No answer: ") == 2

    def test_our_own_sentences_do_not_give_a_depth_away(self, folder: Path) -> None:
        """A shallow answer that found nothing offers a deeper search; on the sheet it does not."""
        (folder / "questions.txt").write_text("What causes the tides?\nWho paints volcanoes?\n", encoding="utf-8")
        assert run(folder, "--a", "depth=report", "--b", "depth=shallow") == 0
        text = (folder / "out" / "sheet.md").read_text(encoding="utf-8")
        assert "Nothing was found." in text
        assert not re.search(r"depth|language model", text)

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["--a", "colour=red"], "colour is neither"),
            (["--a", "depth=deepest"], "depth"),
            (["--a", "depth=shallow fresh=true"], "report"),
            (["--a", "REPORT_PAGES=many"], "REPORT_PAGES"),
            (["--questions", "missing.txt"], "missing.txt"),
        ],
    )
    def test_wrong_use_is_one_line_before_anything_is_asked(
        self, folder: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
    ) -> None:
        """The name of what is wrong, exit code 2, no sheet."""
        assert run(folder, *more) == blind.WRONG_USE
        assert said in capsys.readouterr().err
        assert not (folder / "out" / "sheet.md").exists()

    def test_no_questions_no_sheet(self, folder: Path) -> None:
        """A file of remarks alone is a mistake."""
        (folder / "questions.txt").write_text("# none\n", encoding="utf-8")
        assert run(folder) == blind.WRONG_USE


class TestScoring:
    @pytest.mark.parametrize("key", ['{"sheet": "another"}', "[]", "no json"])
    def test_a_key_of_another_sheet_is_refused(self, folder: Path, key: str) -> None:
        """Else every judgement would be given to whom it does not belong."""
        assert run(folder) == 0
        (folder / "out" / "key.json").write_text(key, encoding="utf-8")
        assert blind.main(["score", "out/sheet.md"]) == blind.WRONG_USE

    def test_a_mistake_of_the_person_is_named(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """With its line, and without a traceback."""
        assert run(folder) == 0
        sheet = folder / "out" / "sheet.md"
        text = sheet.read_text(encoding="utf-8")
        sheet.write_text(re.sub(r"(?m)^(- better .*: )$", r"\g<1>left", text, count=1), encoding="utf-8")
        assert blind.main(["score", "out/sheet.md"]) == blind.WRONG_USE
        assert re.search(r"line \d+: better must be 1, 2 or =", capsys.readouterr().err)


def test_our_own_questions_are_twenty() -> None:
    """As many as the goal asks for, none twice, some of them with several readings."""
    questions = read_questions(blind.QUESTIONS.read_text(encoding="utf-8"))
    assert len({asked.text for asked in questions}) == len(questions) == 20
    assert 3 <= sum(asked.ambiguous for asked in questions) <= 10


def test_what_the_script_does_at_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without options: shallow against report, over the documents of this project."""
    options = blind.arguments(["write"])
    usual: dict[str, Any] = blind._usual(options)
    assert (options.a, options.b) == ("depth=shallow", "depth=report")
    assert usual == {"DOCUMENTS_DIR": blind.DOCUMENTS, "SEARCH_PROVIDERS": ("documents",)}
    assert blind._usual(blind.arguments(["write", "--web"])) == {}
