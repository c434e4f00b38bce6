"""shared/exceptions.py: an error as a client reads it."""

from __future__ import annotations

from tests.support.cases import for_each

from shared.exceptions import AppException, status_phrase


class TooLongError(AppException, code="too_long", status_code=422):
    """The text is too long."""


@for_each(("status", "phrase"), [(404, "Not Found"), (413, "Request Entity Too Large"), (422, "Unprocessable Entity")])
def test_a_status_has_the_same_words_on_each_python(status: int, phrase: str) -> None:
    """Python 3.13 renamed two of them. Clients and the OpenAPI document do not notice which Python a server has."""
    assert status_phrase(status) == phrase


def test_the_title_of_a_problem_is_its_status() -> None:
    """RFC 9457, section 4.2.1: the title of `about:blank` is the phrase of the status."""
    assert TooLongError().problem(instance="/", request_id="r")["title"] == status_phrase(422)
