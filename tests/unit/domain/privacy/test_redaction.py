"""Redaction of secrets that an upstream returns."""

from __future__ import annotations

import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each

from modules.llm_platform.domain.privacy.redaction import MIN_SECRET_CHARS, REDACTED, Redactor

SECRET = 'sk-0123456789/ab+c"ü'


def test_a_secret_is_replaced_in_text_and_data() -> None:
    """Each occurrence is replaced, and the surrounding text is kept."""
    redactor = Redactor([SECRET, "another-secret"])
    assert redactor.text(f"a {SECRET} b {SECRET}, another-secret.") == f"a {REDACTED} b {REDACTED}, {REDACTED}."
    assert redactor.data(f"<{SECRET}>".encode()) == f"<{REDACTED}>".encode()


@for_each(
    "spelling",
    [
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        json.dumps(SECRET)[1:-1].replace("/", "\\/"),
        quote(SECRET, safe=""),
        "\\u0073\\u006B" + json.dumps(SECRET)[3:-1],
        json.dumps(SECRET)[1:-1].replace("-", "\\u002d"),
    ],
)
def test_a_secret_is_found_however_it_is_spelled(spelling: str) -> None:
    """JSON escapes and percent encoding do not hide it, and the rest of the JSON keeps its meaning."""
    body = f'{{"message": "your key {spelling}", "path": "C:\\\\u0041", "quote": "\\u0022", "letter": "\\u0041"}}'
    read = json.loads(Redactor([SECRET]).data(body.encode()))
    assert read["message"] == f"your key {REDACTED}"
    assert (read["path"], read["quote"], read["letter"]) == ("C:\\u0041", '"', "A")


@for_each("secret", ["00800080", "0080" * 3, "80008000", "u0080u0080", "nnnnnnnn"])
@for_each("before", ["", "\\", "a\\", "\x80"])
def test_json_stays_json_if_a_secret_seems_to_begin_in_an_escape(secret: str, before: str) -> None:
    """A secret of digits that repeat can be found from within an escape: the escape goes with it."""
    for ascii_only in (True, False):
        body = json.dumps({"a": f"{before}\n\x80{secret}\n{secret[1:]}"}, ensure_ascii=ascii_only).encode()
        read = json.loads(Redactor([secret]).data(body))["a"]
        assert secret not in read
        assert REDACTED in read


def test_the_longer_secret_goes_first() -> None:
    """If one secret is a prefix of another, no rest of the longer one remains."""
    assert Redactor(["abcdefgh", "abcdefgh-ijkl"]).text("abcdefgh-ijkl") == REDACTED


def test_short_secrets_are_not_searched_for() -> None:
    """A word of fewer than eight characters would blank out ordinary text."""
    short = "x" * (MIN_SECRET_CHARS - 1)
    assert Redactor([short, ""]).text(f"a {short} b") == f"a {short} b"


def test_without_secrets_text_is_unchanged() -> None:
    """The same object is returned."""
    body, text = b'{"a": "\\u0041"}', "a text"
    assert Redactor().data(body) is body
    assert Redactor().text(text) is text


def test_the_repr_contains_no_secret() -> None:
    """No repr shows the secrets."""
    assert SECRET not in repr(Redactor([SECRET])) + str(Redactor([SECRET]))


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=8, max_size=30), st.text(max_size=20), st.booleans())
def test_json_stays_json_and_holds_no_secret(secret: str, around: str, ascii_only: bool) -> None:
    """Whatever the secret, a JSON body that quotes it can still be read, and does not hold it any more."""
    body = json.dumps({"a": around + secret + around}, ensure_ascii=ascii_only).encode(errors="replace")
    read = json.loads(Redactor([secret]).data(body))["a"]
    assert secret not in read or secret in REDACTED
