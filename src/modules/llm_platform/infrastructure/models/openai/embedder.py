"""Embeddings of services that speak OpenAI's protocol, and of Azure OpenAI: POST {base_url}/embeddings."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2

from modules.llm_platform.domain.concurrency.task_group import gather_all
from modules.llm_platform.domain.dtos.retrieval_dtos import Vector
from modules.llm_platform.domain.exceptions import EmbeddingConfigError, EmbeddingError
from modules.llm_platform.domain.ports.embedder import IEmbedder
from modules.llm_platform.domain.privacy.redaction import Redactor
from modules.llm_platform.domain.retrieval.embeddable import cut_to_window
from modules.llm_platform.domain.retrieval.mean_centering import subtract_mean
from modules.llm_platform.infrastructure.http.client import Upstream
from modules.llm_platform.infrastructure.http.errors import ErrorFamily, Rule
from modules.llm_platform.infrastructure.http.untrusted_json import read_dict, read_list, read_number
from modules.llm_platform.infrastructure.models.kinds import (
    AZURE_API_VERSION,
    KINDS,
    OPENAI_URL,
    PATH_STEPS,
    fits_a_header,
)
from modules.llm_platform.infrastructure.models.openai.errors import guess_reported_status
from modules.llm_platform.infrastructure.models.openai.sdk import OpenAIClient
from shared.exceptions import AppException

MAX_DIMENSION: Final = 16_384


class InvalidVectorsError(EmbeddingError):
    """The service returned the wrong number of vectors, or vectors of different or invalid lengths. This is not retried."""


def read_vectors(answer: Mapping[str, Any], count: int, name: str) -> tuple[list[Vector | None], int]:
    """Return the vectors of `{"data": [{"index": 0, "embedding": [...]}, …]}` and their dimension.

    The list has `count` vectors of length 1 in the order of the texts, with None for a zero or invalid vector. Raises
    InvalidVectorsError for another number of vectors, for different dimensions, and for a dimension of 0 or more than
    MAX_DIMENSION.
    """
    rows = [read_dict(row) for row in read_list(answer.get("data"))]
    by_index = {
        row["index"] if type(row.get("index")) is int else position: read_list(row.get("embedding"))
        for position, row in enumerate(rows)
    }
    if len(rows) != count or sorted(by_index) != list(range(count)):
        raise InvalidVectorsError(f"{name} answered with {len(rows)} vectors for {count} texts")
    lengths = {len(numbers) for numbers in by_index.values()}
    if len(lengths) > 1 or not 0 < max(lengths, default=0) <= MAX_DIMENSION:
        raise InvalidVectorsError(f"{name} answered with invalid vectors")
    dimension = lengths.pop()
    return [subtract_mean(_read_numbers(by_index[position]), (), dimension) for position in range(count)], dimension


def _read_numbers(values: Sequence[Any]) -> list[float]:
    """Return the numbers, with NaN for other values. A vector with NaN is dropped."""
    return [math.nan if (number := read_number(value)) is None else number for value in values]


EMBEDDING_TIMEOUT_S: Final = 60.0  # limit for one try
EMBEDDING_ANSWER_BYTES: Final = 32 << 20  # 64 vectors of 3072 numbers, written out, take 4 MB
BATCH_TEXTS: Final = 64
BATCH_CHARS: Final = 200_000  # the service takes 300,000 tokens
MAX_CONCURRENT: Final = 4  # batches
TRIES: Final = 4
EMBEDDING_PAUSE_S: Final = 0.5  # pause before the second try; each further pause is twice as long
MAX_PAUSE_S: Final = 30.0  # a longer Retry-After is not waited for
# In our own token count, a fifth below the limits of the services: for OpenAI's models, and for any other.
OPENAI_WINDOW_TOKENS: Final = 6500
SMALL_WINDOW_TOKENS: Final = 400
DIMENSIONS: Final = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}

EMBEDDING_ERRORS: Final = ErrorFamily(
    config=EmbeddingConfigError,
    connection=EmbeddingError,
    timeout=EmbeddingError,
    blocked=EmbeddingError,
    error=EmbeddingError,
)


@dataclass(frozen=True, slots=True)
class EmbeddingConnection:
    """One configured service. `variables` are the settings that messages name: of the address, the key and the model."""

    kind: str  # openai or azure
    model: str  # the deployment on Azure
    base_url: str | None = None
    api_key: str = field(default="", repr=False)
    api_version: str = AZURE_API_VERSION
    timeout: float = EMBEDDING_TIMEOUT_S
    variables: tuple[str, str, str] = ("EMBEDDING_BASE_URL", "EMBEDDING_API_KEY", "EMBEDDING_MODEL")

    @property
    def address(self) -> str:
        return self.base_url or (OPENAI_URL if self.kind == "openai" else "")

    @property
    def configuration_error(self) -> str | None:
        """An error message about missing settings, or a key that a header cannot have. None means no problem."""
        address, key, model = self.variables
        hosted = self.kind == "azure" or self.address == OPENAI_URL
        missing = [name for name, there in ((address, self.address), (model, self.model)) if not there]
        missing += [key] if hosted and not self.api_key else []
        if missing:
            return f"{self.kind} embeddings need a setting: set {' and '.join(missing)}"
        if self.kind == "azure" and self.model in PATH_STEPS:
            return f"azure embeddings have no such deployment: check {model}"
        return None if fits_a_header(self.api_key) else f"{key} contains characters that a key cannot have: check it"


class OpenAIEmbedder(IEmbedder):
    """`dimension` of an unknown model is 0 until the first text is embedded.

    Without a `client` each request opens its own connection.
    """

    def __init__(
        self,
        connection: EmbeddingConnection,
        client: httpx2.AsyncClient | None = None,
        redactor: Redactor | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = "/".join(filter(None, (connection.kind, connection.model)))
        self.dimension = DIMENSIONS.get(connection.model, 0)
        self.window_tokens = OPENAI_WINDOW_TOKENS if connection.model in DIMENSIONS else SMALL_WINDOW_TOKENS
        self._connection = connection
        self._sleep = sleep
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._upstream = Upstream(
            self.name,
            connection.address,
            setting=connection.variables[0],
            timeout=connection.timeout,
            client=client,
            rules=_make_rules(connection),
            errors=EMBEDDING_ERRORS,
            redactor=redactor,
            max_bytes=EMBEDDING_ANSWER_BYTES,
        )
        version = KINDS[connection.kind].version(connection.api_version)
        self._client = OpenAIClient(self._upstream, connection.api_key, version)

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        if self._connection.configuration_error:
            raise EmbeddingConfigError(self._connection.configuration_error)
        await self._client.load()
        prefixes = cut_to_window(texts, self.window_tokens)
        vectors: list[Vector | None] = [None] * len(texts)

        async def embed_batch(positions: Sequence[int]) -> None:
            batch = await self._embed_batch([prefixes[position] for position in positions])
            for position, vector in zip(positions, batch, strict=True):
                vectors[position] = vector

        await gather_all(embed_batch(positions) for positions in _make_batches(prefixes))
        return vectors

    async def _embed_batch(self, texts: list[str]) -> list[Vector | None]:
        async with self._slots:
            for number in range(TRIES):
                try:
                    return await self._embed_once(texts)
                except InvalidVectorsError:
                    raise
                except EmbeddingError as error:
                    pause = EMBEDDING_PAUSE_S * 2**number if error.retry_after_s is None else error.retry_after_s
                    if number + 1 == TRIES or pause > MAX_PAUSE_S:
                        raise
                await self._sleep(pause)
            raise AssertionError("unreachable: the last try returns or raises")

    async def _embed_once(self, texts: list[str]) -> list[Vector | None]:
        body: dict[str, Any] = {"input": texts, "model": self._connection.model, "encoding_format": "float"}
        reply = await self._upstream.read_reply(self._client.post("/embeddings", body, sent_kind="page text"))
        answer = self._upstream.json_object(reply)
        if answer.get("error") and not answer.get("data"):
            raise self._make_reported_error(answer)
        vectors, dimension = read_vectors(answer, len(texts), self.name)
        if dimension and self.dimension not in (0, dimension):
            raise EmbeddingConfigError(
                f"{self.name} gives vectors of {dimension} numbers, not of {self.dimension}: "
                f"check {self._connection.variables[2]}, and rebuild the index"
            )
        self.dimension = dimension or self.dimension
        return vectors

    def _make_reported_error(self, answer: Mapping[str, Any]) -> AppException:
        """Return the error for an answer with status 200 that reports an error. One of unknown meaning is not retried."""
        if status := guess_reported_status(answer):
            return self._upstream.make_status_error(status)
        address, _, model = self._connection.variables
        return EmbeddingConfigError(
            f"{self.name} answered with an error instead of vectors: check {model} and {address}, and the log of the service"
        )


def _make_batches(texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield the places of the texts that are not blank, in batches that a service accepts."""
    batch: list[int] = []
    chars = 0
    for position, text in enumerate(texts):
        if batch and (len(batch) == BATCH_TEXTS or chars + len(text) > BATCH_CHARS):
            yield batch
            batch, chars = [], 0
        if text:
            batch.append(position)
            chars += len(text)
    if batch:
        yield batch


def _make_rules(connection: EmbeddingConnection) -> dict[int, Rule]:
    """Return the rules for statuses whose default rule does not name the setting."""
    address, key, model = connection.variables
    rejected = {
        status: Rule("config", f"rejects the texts ({status}): check {model}") for status in (400, 413, 415, 422)
    }
    return rejected | {
        401: Rule("config", f"refuses the key (401): check {key}"),
        402: Rule("config", f"requires payment (402): top up the quota of {key}, or set another service"),
        403: Rule("config", f"forbids the request (403): check {key} and {model}"),
        404: Rule("config", f"knows no such address or model (404): check {address} and {model}"),
        405: Rule("config", f"knows no such address (405): check {address}"),
    }
