"""The SQL of the store of failed requests, for SQLite and PostgreSQL.

Failures are rare, so each statement has one row. `{seconds}` is the column stored_at in seconds since 1970.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, Final

from modules.llm_platform.domain.dtos.retrieval_dtos import FailedRequest
from modules.llm_platform.domain.ports.outcome_store import IFailedRequestStore
from modules.llm_platform.infrastructure.stores.database.operations import (
    DAY_S,
    Operation,
    SqlStore,
    Statement,
    operation,
)

_ROW_BYTES: Final = 100  # besides the texts, roughly
TRIM_PARTS: Final = 100  # a worker trims after each part of the limit, because the sizes of all rows are then summed up
_FORGET: Final = """
DELETE FROM llm_platform.failed_request WHERE stage = :stage AND tenant = :tenant AND request_id = :request_id
"""
_KEEP: Final = """
INSERT INTO llm_platform.failed_request (stage, tenant, request_id, stored_at, size, key, headers, value)
VALUES (:stage, :tenant, :request_id, {stored_at}, :size, :key, :headers, :value)
"""
_TRIM: Final = """
DELETE FROM llm_platform.failed_request WHERE number <= (
    SELECT max(number) FROM (
        SELECT number, sum(size) OVER (ORDER BY number DESC) AS total FROM llm_platform.failed_request
    ) AS newest WHERE total > :max_bytes
)
"""
_LIST: Final = """
SELECT stage, request_id, tenant, value, key, headers, {seconds} FROM llm_platform.failed_request
WHERE {seconds} >= :now - :ttl_s ORDER BY number
"""
_REMOVE: Final = f"{_FORGET} AND {{seconds}} = :seconds"
_CLEAN: Final = "DELETE FROM llm_platform.failed_request WHERE {seconds} < :now - :ttl_s RETURNING number"


class SqlFailedRequestStore(IFailedRequestStore, SqlStore):
    """Stores failed requests for `ttl_days` and removes the oldest above `max_bytes`.

    Each further worker may exceed the limit by 1 / TRIM_PARTS.
    """

    def __init__(self, max_bytes: int, ttl_days: float) -> None:
        self._step_bytes = max_bytes // TRIM_PARTS
        self._max_bytes, self._ttl_s = max_bytes - self._step_bytes, ttl_days * DAY_S
        self._untrimmed_bytes = self._step_bytes  # the first request trims what an earlier process has left

    @operation()
    def put(self, request: FailedRequest) -> Operation[None]:
        """Headers are JSON with the values in base64."""
        encoded = [(name, None if value is None else b64encode(value).decode()) for name, value in request.headers]
        headers = json.dumps(encoded)
        size = _ROW_BYTES + len(request.value) + len(request.key or b"") + len(headers)
        if size > self._max_bytes:
            return
        key = _make_key(request)
        yield Statement(_FORGET, key)
        yield Statement(_KEEP, {**key, "size": size, "key": request.key, "headers": headers, "value": request.value})
        self._untrimmed_bytes += size
        if self._untrimmed_bytes >= self._step_bytes:
            yield Statement(_TRIM, {"max_bytes": self._max_bytes})
            self._untrimmed_bytes = 0

    @operation(empty=[])
    def list(self) -> Operation[list[FailedRequest]]:
        rows = yield Statement(_LIST, {"ttl_s": self._ttl_s})
        return list(map(_request, rows))

    @operation()
    def remove(self, requests: Sequence[FailedRequest]) -> Operation[None]:
        for request in requests:
            yield Statement(_REMOVE, {**_make_key(request), "seconds": request.stored_at})

    @operation(empty=0)
    def clean(self) -> Operation[int]:
        return len((yield Statement(_CLEAN, {"ttl_s": self._ttl_s})))


def _make_key(request: FailedRequest) -> dict[str, Any]:
    return {"stage": request.stage, "tenant": encode_id(request.tenant), "request_id": encode_id(request.request_id)}


def _request(row: Sequence[Any]) -> FailedRequest:
    stage, request_id, tenant, value, key, encoded, stored_at = row
    headers = tuple((name, None if value is None else b64decode(value)) for name, value in json.loads(encoded))
    content = bytes(value), None if key is None else bytes(key), headers
    return FailedRequest(stage, decode_id(request_id), decode_id(tenant), *content, float(stored_at))


def encode_id(text: str) -> bytes:
    """Return UTF-8, in which a lone surrogate is allowed: an id may contain one."""
    return text.encode("utf-8", "surrogatepass")


def decode_id(raw: bytes) -> str:
    return bytes(raw).decode("utf-8", "surrogatepass")
