-- The first tables. A task's row is written once and never updated: where a task is follows from which of the other
-- tables names it. Times are microseconds since 1970 UTC, enums small integers; the numbers are those of src/codes.rs.

CREATE TABLE meta (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The next number of each kind: task (drawn in blocks), schedule, worker.
CREATE TABLE sequence (
    name TEXT NOT NULL PRIMARY KEY,
    next INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO sequence (name, next) VALUES ('task', 1), ('schedule', 1), ('worker', 1);

-- Names are stored once. A lane is a pair of queue and method: a claim for some methods reads only their lanes, and a
-- million tasks that no worker here knows cost it nothing.
CREATE TABLE queue (
    id     INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE,
    paused INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX queue_paused ON queue (id) WHERE paused = 1;
CREATE TABLE method (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);
CREATE TABLE lane (
    id     INTEGER PRIMARY KEY,
    queue  INTEGER NOT NULL,
    method INTEGER NOT NULL,
    UNIQUE (queue, method)
);
CREATE INDEX lane_method ON lane (method);

-- Immutable. An occurrence has no arguments, schema or options of its own: they are the definition's of that version.
CREATE TABLE task (
    id       INTEGER PRIMARY KEY,
    lane     INTEGER NOT NULL,
    lvl      INTEGER NOT NULL,
    created  INTEGER NOT NULL,
    due      INTEGER NOT NULL,
    schema   INTEGER,
    args     BLOB,              -- NULL with a schema: in task_body
    options  TEXT,              -- JSON; NULL where nothing is overridden
    unique_key TEXT,            -- JSON with scope, hold and mode, kept so that a redrive takes it again
    schedule INTEGER,           -- NULL for a task that is no occurrence
    era      INTEGER,
    slot     INTEGER,           -- NULL for a trigger
    pass     INTEGER,           -- 0 for the series itself
    at       INTEGER,
    run      INTEGER,
    catch_up INTEGER,
    version  INTEGER
);
CREATE INDEX task_lane ON task (lane, id);
CREATE UNIQUE INDEX task_slot ON task (schedule, era, slot, pass) WHERE slot IS NOT NULL;
CREATE INDEX task_schedule ON task (schedule, id) WHERE schedule IS NOT NULL;

-- Arguments above 1 KiB, so that a scan of tasks does not read over them.
CREATE TABLE task_body (
    id   INTEGER PRIMARY KEY,
    args BLOB NOT NULL
);

-- Waiting tasks, clustered in the order of the claim. The class is the level, plus 4 after a worker was lost: such
-- suspects are claimed alone and only on request.
CREATE TABLE ready (
    lane   INTEGER NOT NULL,
    class  INTEGER NOT NULL,
    due    INTEGER NOT NULL,
    id     INTEGER NOT NULL,
    n      INTEGER NOT NULL,    -- attempts begun
    spent  INTEGER NOT NULL,
    losses INTEGER NOT NULL,
    PRIMARY KEY (lane, class, due, id),
    UNIQUE (id)
) WITHOUT ROWID;

-- Running tasks, up to 90 a row, packed as src/packed.rs says: claiming a batch and finishing it write few rows.
CREATE TABLE claim (
    id     INTEGER PRIMARY KEY,
    worker INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    tasks  BLOB NOT NULL
);
CREATE INDEX claim_worker ON claim (worker);

-- Cancels asked of running tasks, read by their workers' renewals.
CREATE TABLE cancel (
    task   INTEGER PRIMARY KEY,
    worker INTEGER NOT NULL
);
CREATE INDEX cancel_worker ON cancel (worker);

-- Ended attempts. `final` is the state in which a task has ended, on the attempt that ended it.
CREATE TABLE attempt (
    task    INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    worker  INTEGER NOT NULL,
    started INTEGER NOT NULL,
    ended   INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    final   INTEGER,
    lane    INTEGER NOT NULL,
    out     BLOB NOT NULL,
    PRIMARY KEY (task, n)
) WITHOUT ROWID;
CREATE INDEX attempt_final ON attempt (final, lane, task) WHERE final IS NOT NULL;

-- Which tasks ended when, a row a batch, oldest first for retention. Kind 0 is all but failed, 1 is failed.
CREATE TABLE ended (
    id    INTEGER PRIMARY KEY,
    kind  INTEGER NOT NULL,
    at    INTEGER NOT NULL,     -- the earliest end in the row
    tasks BLOB NOT NULL
);
CREATE INDEX ended_at ON ended (kind, at);

-- Unique keys while they are held.
CREATE TABLE unique_key (
    scope   INTEGER NOT NULL,
    target  INTEGER NOT NULL,   -- a method or a queue, by scope
    text    TEXT NOT NULL,
    task    INTEGER NOT NULL,
    waiting INTEGER NOT NULL,   -- 1: held until the first claim
    plus    INTEGER,            -- held for so long after the end
    until   INTEGER,            -- set when the task has ended and the key outlives it
    PRIMARY KEY (scope, target, text)
) WITHOUT ROWID;
CREATE INDEX unique_key_task ON unique_key (task);
CREATE INDEX unique_key_until ON unique_key (until) WHERE until IS NOT NULL;

-- Live occurrences by schedule: what max_pending counts.
CREATE TABLE hold (
    gate INTEGER NOT NULL,
    task INTEGER NOT NULL,
    PRIMARY KEY (gate, task)
) WITHOUT ROWID;

-- Registrations. The lease ends `until` microseconds after the boot that `boot` names.
CREATE TABLE worker (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL,
    slots INTEGER NOT NULL,
    state INTEGER NOT NULL,     -- 0 alive, 1 dead
    boot  TEXT NOT NULL,
    until INTEGER NOT NULL,
    seen  INTEGER NOT NULL      -- the last renewal, or the death, on the wall clock
);
CREATE INDEX worker_state ON worker (state);

CREATE TABLE schedule (
    id       INTEGER PRIMARY KEY,
    name     TEXT NOT NULL UNIQUE,
    created  INTEGER NOT NULL,
    hash     INTEGER NOT NULL,  -- of the last declaration that was applied
    revision INTEGER NOT NULL
);

-- Definitions never change; an edit adds a version. `spec` is JSON without the arguments.
CREATE TABLE definition (
    schedule INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    spec     TEXT NOT NULL,
    args     BLOB NOT NULL,
    PRIMARY KEY (schedule, version)
) WITHOUT ROWID;

-- Where each schedule stands. `wake` is when a sweep is to look at it: NULL while it is not active, or until one of its
-- occurrences ends.
CREATE TABLE position (
    id          INTEGER PRIMARY KEY,
    state       INTEGER NOT NULL,
    note        TEXT NOT NULL,
    rev         INTEGER NOT NULL,
    era         INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    cursor_slot INTEGER,
    cursor_at   INTEGER,
    cursor_gap  INTEGER,
    runs        INTEGER NOT NULL,
    kept_to     INTEGER,
    wake        INTEGER
);
CREATE INDEX position_wake ON position (wake) WHERE wake IS NOT NULL;

-- Slots that were decided not to run: a row a range, and their sums.
CREATE TABLE missed (
    id       INTEGER PRIMARY KEY,
    schedule INTEGER NOT NULL,
    era      INTEGER NOT NULL,
    from_at  INTEGER NOT NULL,
    to_at    INTEGER NOT NULL,
    reason   INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    exact    INTEGER NOT NULL
);
CREATE INDEX missed_schedule ON missed (schedule, id);
CREATE INDEX missed_to ON missed (to_at);
CREATE TABLE missed_sum (
    schedule INTEGER NOT NULL,
    reason   INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    PRIMARY KEY (schedule, reason)
) WITHOUT ROWID;
