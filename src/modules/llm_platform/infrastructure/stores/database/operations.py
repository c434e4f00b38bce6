"""Define operations of SQL without a driver, for SQLite and PostgreSQL.

An operation is a generator: it yields statements, is sent the rows of each, and returns the result. A driver runs it in one
transaction. Statements name their parameters as `:name`. `:now` is the store's time in seconds since 1970.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from modules.llm_platform.domain.callers.list_cursor import parse_cursor

DAY_S: Final = 86_400
# The number after which a list (newest first) continues: the number of the cursor's entry. If that entry was removed, it is the
# number of the oldest entry that is not older than the cursor, and if there is none, the list begins anew. If the cursor has no
# time either, nothing follows. The statement fills in `{entry}` and `{not_older}`.
CONTINUE_AFTER: Final = """
coalesce(({entry}), ({not_older} AND created_at >= CAST(:before_at AS double precision)),
    CASE WHEN CAST(:before_at AS double precision) IS NULL THEN 0 ELSE 9223372036854775807 END)
"""

Args = ParamSpec("Args")
Result = TypeVar("Result")
Row: TypeAlias = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    parameters: Mapping[str, Any]


def make_position(before: str | None) -> Mapping[str, str | float | None]:
    """Return the parameters of CONTINUE_AFTER for a cursor; None is the beginning of the list."""
    if before is None:
        return {"before": None, "before_at": None}
    cursor = parse_cursor(before)
    return {"before": cursor.id, "before_at": cursor.at}


Operation: TypeAlias = Generator[Statement, Sequence[Row], Result]


class SqlStore(ABC):
    """A store over a driver. `_transact` may run an operation twice if the connection broke."""

    @abstractmethod
    async def _transact(self, make: Callable[[], Operation[Result]]) -> Result:
        """Run the operation that `make` returns in one transaction."""

    async def _run_statement(self, make: Callable[[], Operation[Result]]) -> Result:
        """Run an operation of one statement, which is a transaction by itself, as `_transact` does."""
        return await self._transact(make)

    async def _query(self, make: Callable[[], Operation[Result]], empty: Result) -> Result:
        """Run an operation as `_transact` does. `empty` is the result if nothing was ever stored."""
        return await self._transact(make)

    async def _read(self, make: Callable[[], Operation[Result]], empty: Result) -> Result:
        """Run an operation that writes nothing, as `_query` does."""
        return await self._query(make, empty)


Store = TypeVar("Store", bound=SqlStore)
Work: TypeAlias = Callable[Concatenate[Store, Args], Operation[Result]]
Method: TypeAlias = Callable[Concatenate[Store, Args], Coroutine[Any, Any, Result]]


_NEVER: Final = object()


def operation(
    *, empty: Any = _NEVER, is_statement: bool = False, is_read: bool = False
) -> Callable[[Work[Store, Args, Result]], Method[Store, Args, Result]]:
    """Return a method that runs this operation.

    - `empty` is the result if nothing was ever stored. The database is then not opened.
    - `is_statement` is True if the operation is one statement.
    - `is_read` is True if the operation has `empty` and writes nothing.
    """

    def decorate(work: Work[Store, Args, Result]) -> Method[Store, Args, Result]:
        @wraps(work)
        async def method(store: Store, /, *args: Args.args, **kwargs: Args.kwargs) -> Result:
            make = partial(work, store, *args, **kwargs)
            if is_statement:
                return await store._run_statement(make)
            if is_read:
                return await store._read(make, empty)
            return await (store._transact(make) if empty is _NEVER else store._query(make, empty))

        return method

    return decorate


def list_marks(name: str, values: Collection[str]) -> tuple[str, dict[str, Any]]:
    """Return the placeholders of a list after IN, and their values. Nothing is in an empty list."""
    named = {f"{name}_{number}": value for number, value in enumerate(values)}
    return ", ".join(f":{mark}" for mark in named) or "NULL", named
