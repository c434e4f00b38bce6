"""The tables of background runs, for SQLite and PostgreSQL: the first version, and what later ones added."""

from typing import Final

# `{number}` is the type of a key that counts up. A queued research has a lease that has run out.
SCHEMA: Final = (
    """
    CREATE TABLE llm_platform.research_job (
        number {number},
        owner text NOT NULL,
        id text NOT NULL,
        label text NOT NULL,
        request text NOT NULL,
        status text NOT NULL DEFAULT 'queued',
        created_at double precision NOT NULL,
        started_at double precision,
        finished_at double precision,
        attempts integer NOT NULL DEFAULT 0,
        progress text NOT NULL DEFAULT '{{}}',
        last_event integer NOT NULL DEFAULT 0,
        lease text,
        lease_until double precision NOT NULL DEFAULT 0,
        webhook text,
        webhook_status text,
        webhook_attempts integer NOT NULL DEFAULT 0,
        webhook_at double precision NOT NULL DEFAULT 0,
        UNIQUE (owner, id)
    )
    """,
    "CREATE INDEX research_job_open ON llm_platform.research_job (number) WHERE status IN ('queued', 'running')",
    "CREATE INDEX research_job_webhook ON llm_platform.research_job (webhook_at) WHERE webhook_status = 'pending'",
    "CREATE INDEX research_job_page ON llm_platform.research_job (owner, number)",
    "CREATE INDEX research_job_finished_at ON llm_platform.research_job (finished_at)",
    """
    CREATE TABLE llm_platform.research_job_event (
        job bigint NOT NULL,
        number integer NOT NULL,
        type text NOT NULL,
        data text NOT NULL,
        PRIMARY KEY (job, number)
    )
    """,
    "CREATE TABLE llm_platform.research_job_sources (job bigint PRIMARY KEY, data text NOT NULL)",
)
ADD_TRACEPARENT: Final = "ALTER TABLE llm_platform.research_job ADD COLUMN traceparent text NOT NULL DEFAULT ''"
ADD_CLIENT: Final = (
    "ALTER TABLE llm_platform.research_job ADD COLUMN api text NOT NULL DEFAULT ''",
    "ALTER TABLE llm_platform.research_job ADD COLUMN client_request text NOT NULL DEFAULT ''",
)
# `thread` is the id of its first run. `search_text` has the question in small letters, and the title that the thread was given.
ADD_THREAD: Final = (
    "ALTER TABLE llm_platform.research_job ADD COLUMN thread text NOT NULL DEFAULT ''",
    "ALTER TABLE llm_platform.research_job ADD COLUMN title text NOT NULL DEFAULT ''",
    "ALTER TABLE llm_platform.research_job ADD COLUMN search_text text NOT NULL DEFAULT ''",
    "ALTER TABLE llm_platform.research_job ADD COLUMN is_report boolean NOT NULL DEFAULT true",
    "UPDATE llm_platform.research_job SET thread = id, search_text = lower(request)",
    "CREATE INDEX research_job_thread ON llm_platform.research_job (owner, thread, number)",
)
