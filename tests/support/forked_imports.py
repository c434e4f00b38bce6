"""The imports of test programs. The fork server imports them before the first fork.

No import may start a thread, which a fork would lack.
"""

from __future__ import annotations

import gc

import confluent_kafka  # noqa: F401
import openai  # noqa: F401
import uvicorn.main  # noqa: F401
from tests.fakes import embedder  # noqa: F401
from tests.kafka import worker_program  # noqa: F401

from modules.llm_platform.application.rag import embedded_batches, indexing, intake  # noqa: F401
from modules.llm_platform.infrastructure.index.qdrant import edge_vector_store  # noqa: F401
from modules.llm_platform.infrastructure.stores.outcomes import sqlite  # noqa: F401
from modules.llm_platform.presentation.cli.commands import index, worker  # noqa: F401
from modules.llm_platform.presentation.kafka.worker import handler  # noqa: F401
from modules.llm_platform.presentation.kafka.worker import worker as kafka_worker  # noqa: F401
from modules.llm_platform.testing import sample_page  # noqa: F401

gc.collect()
gc.freeze()  # garbage collections of a fork skip the imported objects
