"""Addresses are found whole, and only sources' addresses are known."""

from __future__ import annotations

from tests.support.cases import for_each

from modules.llm_platform.domain.markdown.addresses import KnownAddresses, format_target, read_address


@for_each(
    ("text", "sign", "expected"),
    [
        ("see https://a.example/x. Then", ":", "https://a.example/x"),
        ("(https://a.example/x_(y))", ":", "https://a.example/x_(y)"),
        ("http://[::1]/x", ":", "http://[::1]/x"),
        ("a //b.example/c d", "//", "//b.example/c"),
        ("a // comment", "//", None),
        ("(www.a.example)", "www", "www.a.example"),
        ("awww.a.example", "www", None),
        ("x bob.b@a.example, y", "@", "bob.b@a.example"),
        ("x @handle y", "@", None),
        ("at a.example/path, y", ".e", "a.example/path"),
        ("in 3.11/x", ".1", None),
        ("data:text/html,x y", ":", "data:text/html,x"),
        ("metadata:x", ":", None),
        ("12:30", ":", None),
        ("https://", ":", None),
    ],
)
def test_where_an_address_begins_and_ends(text: str, sign: str, expected: str | None) -> None:
    """From its scheme, host or mailbox to the last character that is no punctuation of the sentence."""
    span = read_address(text, text.index(sign), 0)
    assert (text[slice(*span)] if span else None) == expected


def test_only_addresses_of_sources_are_known() -> None:
    """An equivalent spelling of a source's address is recognised. An unsafe address never is."""
    known = KnownAddresses(["https://a.example/x", "https://b.example/<x>", "doc:a b.md"])
    assert known.exact("https://a.example/x") == "https://a.example/x"
    assert known.exact("http://www.a.example/x/?utm_source=y") == "https://a.example/x"
    assert known.exact("https://a.example/y") is None
    assert known.exact("https://b.example/<x>") is None
    assert known.exact("doc:a b.md") is None


def test_brackets_in_a_target_are_fenced() -> None:
    """A target with round brackets is put in angle ones."""
    assert format_target("https://a.example/x_(y)") == "<https://a.example/x_(y)>"
    assert format_target("https://a.example/x") == "https://a.example/x"
