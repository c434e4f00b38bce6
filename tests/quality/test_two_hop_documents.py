"""Questions of two steps over a folder of made-up documents, as a report without a model."""

from __future__ import annotations

from pathlib import Path

from scripts import two_hop_documents as two_hops


def test_the_documents_are_the_same_each_time_and_of_three_kinds(tmp_path: Path) -> None:
    """Each chain has four documents of its own, and an answer stands only in the second one."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    asked, again = (two_hops.write_documents(folder) for folder in folders)
    assert asked == again
    texts = {path.name: path.read_text("utf-8") for path in folders[0].iterdir()}
    assert texts == {path.name: path.read_text("utf-8") for path in folders[1].iterdir()}
    assert len(texts) == 4 * two_hops.CHAINS
    assert {name.rpartition(".")[2] for name in texts} == set(two_hops.KINDS)
    for case in asked:
        first, second = case.supports
        assert case.answer in texts[second]
        assert case.answer not in texts[first]


async def test_further_rounds_find_what_one_search_does_not() -> None:
    """Both documents are among the sources, and the answer stands in a supported sentence: at least in eleven of twelve."""
    complete, right, lines = await two_hops.measure()
    assert min(complete, right) >= two_hops.QUESTIONS - 1, lines
