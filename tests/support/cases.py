"""One rule over a table of cases in one test, because the setup of a test costs more than most cases."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

MAX_SHOWN_CHARS = 500  # longest value that a failure shows
FAILURES = (Exception, pytest.fail.Exception)


def for_each(
    names: str | tuple[str, ...], cases: Iterable[Any] | Callable[[], Iterable[Any]]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`pytest.mark.parametrize` in one test: all cases run, and the failure names those that fail.

    Use it for rules whose cases leave nothing behind, because they share the fixtures. If building the cases takes
    long, pass the function that builds them. It is called when the test runs, not in each process that collects the
    test.
    """
    assert isinstance(names, str | tuple), "name the arguments of the law first: for_each is a decorator"
    fields = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    @functools.cache
    def table() -> list[tuple[Any, ...]]:
        found = [_values(case, len(fields)) for case in (cases() if callable(cases) else cases)]
        assert found, "a law without a case holds nothing"
        return found

    if not callable(cases):
        table()

    def decorate(law: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(law)
        def tried(*self: object, **fixtures: Any) -> None:
            failures = _Failures(fields)
            for values in table():
                with failures.of(values):
                    law(*self, **fixtures, **dict(zip(fields, values, strict=True)))
            failures.report(len(table()))

        @functools.wraps(law)
        async def tried_in_a_loop(*self: object, **fixtures: Any) -> None:
            failures = _Failures(fields)
            for values in table():
                with failures.of(values):
                    await law(*self, **fixtures, **dict(zip(fields, values, strict=True)))
            failures.report(len(table()))

        test = tried_in_a_loop if inspect.iscoroutinefunction(law) else tried
        signature = inspect.signature(law)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in fields]
        assert len(kept) == len(signature.parameters) - len(fields), f"{law.__name__} lacks one of {fields}"
        test.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return test

    return decorate


def _values(case: Any, count: int) -> tuple[Any, ...]:
    if isinstance(case, ParameterSet):
        assert not case.marks, "a case of a table has no marks of its own: leave it to parametrize"
        return tuple(case.values)
    return (case,) if count == 1 else tuple(case)


class _Failures:
    """The errors of the failed cases, each with its case."""

    def __init__(self, fields: list[str]) -> None:
        self._fields = fields
        self._errors: list[BaseException] = []

    def of(self, values: tuple[Any, ...]) -> _Failures:
        self._values = values
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, FAILURES):
            return False
        error.add_note("case: " + ", ".join(self._shown()))
        self._errors.append(error)
        return True

    def _shown(self) -> Iterator[str]:
        for name, value in zip(self._fields, self._values, strict=True):
            yield f"{name}={value!r:.{MAX_SHOWN_CHARS}}"

    def report(self, total: int) -> None:
        """Raise one error that lists all failures. Plugins show only the first error of a group."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            listed = "\n".join(map(_described, self._errors))
            raise AssertionError(f"{len(self._errors)} of {total} cases do not hold:\n{listed}") from self._errors[0]


def _described(error: BaseException) -> str:
    said = next(iter(str(error).splitlines()), "")[:MAX_SHOWN_CHARS]
    return f"{'; '.join(error.__notes__)}\n    {type(error).__name__}: {said}"
