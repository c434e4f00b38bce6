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
# A server of a version before ADD_THREAD may continue storing runs without a thread while servers are replaced. The tables
# themselves make each of them a thread of its own.
_OWN_THREAD: Final = "UPDATE llm_platform.research_job SET thread = id, search_text = lower(request) WHERE thread = ''"
OWN_THREAD_SQLITE: Final = (
    """
    CREATE TRIGGER research_job_thread AFTER INSERT ON research_job WHEN new.thread = '' BEGIN
        UPDATE research_job SET thread = id, search_text = lower(request) WHERE number = new.number;
    END
    """,
    _OWN_THREAD,
)
OWN_THREAD_POSTGRES: Final = (
    """
    CREATE FUNCTION llm_platform.set_own_thread() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.thread := NEW.id;
        NEW.search_text := lower(NEW.request);
        RETURN NEW;
    END
    $$
    """,
    """
    CREATE TRIGGER research_job_thread BEFORE INSERT ON llm_platform.research_job
    FOR EACH ROW WHEN (NEW.thread = '') EXECUTE FUNCTION llm_platform.set_own_thread()
    """,
    _OWN_THREAD,
)
# What the list of threads needs of an answer: the last columns, so that SQLite reads them only where they are asked for.
ADD_ANSWER: Final = (
    "ALTER TABLE llm_platform.research_job ADD COLUMN evidence text NOT NULL DEFAULT ''",
    "ALTER TABLE llm_platform.research_job ADD COLUMN answer_text text NOT NULL DEFAULT ''",
)
ADD_FINISH: Final = "ALTER TABLE llm_platform.research_job ADD COLUMN is_finish_asked boolean NOT NULL DEFAULT false"
# Times that the server of a run ended, or lost its lease, since the run last stored something that a new attempt can use.
ADD_UNCLEAN_ENDS: Final = "ALTER TABLE llm_platform.research_job ADD COLUMN unclean_ends integer NOT NULL DEFAULT 0"
# What is left of runs that were removed while a worker wrote their events.
REMOVE_ORPHANS: Final = tuple(
    f"DELETE FROM llm_platform.{table} WHERE job NOT IN (SELECT number FROM llm_platform.research_job)"  # noqa: S608
    for table in ("research_job_event", "research_job_sources")
)
# PostgreSQL removes events and sources with their run, whatever version of the program removes it, and refuses those of no run.
# A transaction of SQLite locks out all other writers, so nothing can come between there.
CASCADE_POSTGRES: Final = (
    "LOCK TABLE llm_platform.research_job, llm_platform.research_job_event, llm_platform.research_job_sources "
    "IN SHARE ROW EXCLUSIVE MODE",
    *REMOVE_ORPHANS,
    *(
        f"ALTER TABLE llm_platform.{table} ADD FOREIGN KEY (job) REFERENCES llm_platform.research_job ON DELETE CASCADE"
        for table in ("research_job_event", "research_job_sources")
    ),
)
