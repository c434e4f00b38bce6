"""The tables of watched questions, for SQLite and PostgreSQL."""

from typing import Final

# `{number}` is the type of a key that counts up. `due_at` is when the run was due, `next_at` when a worker looks at it.
# `last_run` is the number of the last finished run, and `asked` is true while the question of the run after it is asked.
SCHEMA: Final = (
    """
    CREATE TABLE llm_platform.watch (
        number {number},
        owner text NOT NULL,
        id text NOT NULL,
        label text NOT NULL,
        request text NOT NULL,
        urls text NOT NULL,
        is_only_urls boolean NOT NULL,
        every_s integer NOT NULL,
        webhook text,
        max_cost_usd double precision,
        created_at double precision NOT NULL,
        paused_because text,
        problem text,
        due_at double precision NOT NULL,
        next_at double precision NOT NULL,
        asked boolean NOT NULL DEFAULT false,
        last_run integer NOT NULL DEFAULT 0,
        last_change integer NOT NULL DEFAULT 0,
        refusals integer NOT NULL DEFAULT 0,
        lease text,
        lease_until double precision NOT NULL DEFAULT 0,
        UNIQUE (owner, id)
    )
    """,
    "CREATE INDEX watch_due ON llm_platform.watch (next_at) WHERE paused_because IS NULL",
    """
    CREATE TABLE llm_platform.watch_run (
        watch bigint NOT NULL,
        number integer NOT NULL,
        at double precision NOT NULL,
        cost_usd double precision NOT NULL,
        data text NOT NULL,
        PRIMARY KEY (watch, number)
    )
    """,
    """
    CREATE TABLE llm_platform.watch_change (
        watch bigint NOT NULL,
        number integer NOT NULL,
        run integer NOT NULL,
        at double precision NOT NULL,
        data text NOT NULL,
        PRIMARY KEY (watch, number)
    )
    """,
    """
    CREATE TABLE llm_platform.watch_notice (
        number {number},
        watch bigint NOT NULL,
        run integer NOT NULL,
        channel text NOT NULL,
        status text NOT NULL DEFAULT 'pending',
        attempts integer NOT NULL DEFAULT 0,
        due_at double precision NOT NULL
    )
    """,
    "CREATE INDEX watch_notice_due ON llm_platform.watch_notice (due_at) WHERE status = 'pending'",
    "CREATE INDEX watch_notice_watch ON llm_platform.watch_notice (watch)",
    "CREATE TABLE llm_platform.watch_reading (watch bigint PRIMARY KEY, data text NOT NULL)",
)
# `total_usd` is the cost of a run and all runs before it, so that the cost of some days needs two rows.
ADD_TOTALS: Final = (
    "ALTER TABLE llm_platform.watch_run ADD COLUMN total_usd double precision NOT NULL DEFAULT 0",
    """
    UPDATE llm_platform.watch_run SET total_usd = (
        SELECT sum(earlier.cost_usd) FROM llm_platform.watch_run AS earlier
        WHERE earlier.watch = watch_run.watch AND earlier.number <= watch_run.number
    )
    """,
    "CREATE INDEX watch_run_at ON llm_platform.watch_run (watch, at)",
    "CREATE INDEX watch_notice_undelivered ON llm_platform.watch_notice (watch) WHERE status <> 'delivered'",
)
# The runs keep the time of the day of `created_at`.
DROP_DUE_AT: Final = ("ALTER TABLE llm_platform.watch DROP COLUMN due_at",)
