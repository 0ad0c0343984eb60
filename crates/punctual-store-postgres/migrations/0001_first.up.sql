-- The first tables. A task's row is written once and never updated: where a task is follows from which of the other
-- tables names it. Times are microseconds since 1970 UTC, enums small integers; the numbers are those of src/codes.rs.

CREATE TABLE meta (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);

-- Numbers that are drawn before the write that uses them. A sequence gives each once, whatever is rolled back.
CREATE SEQUENCE task_id AS bigint;
CREATE SEQUENCE worker_id AS bigint;

-- Names are stored once. A lane is a pair of queue and method: a claim for some methods reads only their lanes, and a
-- million tasks that no worker here knows cost it nothing.
CREATE TABLE queue (
    id     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name   text COLLATE "C" NOT NULL UNIQUE,
    paused boolean NOT NULL DEFAULT false,
    listed boolean NOT NULL DEFAULT false   -- once a task was written to it, or it was paused
);
CREATE TABLE method (
    id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);
CREATE TABLE lane (
    id     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue  integer NOT NULL,
    method integer NOT NULL,
    UNIQUE (method, queue)
);

-- Immutable. An occurrence has no arguments, schema or options of its own: they are the definition's of that version.
CREATE TABLE task (
    id         bigint NOT NULL PRIMARY KEY,
    created    bigint NOT NULL,
    due        bigint NOT NULL,
    schema     bigint,
    schedule   bigint,          -- NULL for a task that is no occurrence
    slot       bigint,          -- NULL for a trigger
    at         bigint,
    run        bigint,
    lane       integer NOT NULL,
    era        integer,
    pass       integer,         -- 0 for the series itself, else the backfill's number
    version    integer,
    lvl        smallint NOT NULL,
    catch_up   boolean,
    args       bytea,           -- NULL with a schema: in task_body
    options    text,            -- JSON; NULL where nothing is overridden
    unique_key text             -- JSON with scope, hold and mode, kept so that a redrive takes it again
);
CREATE INDEX task_lane ON task (lane, id);
CREATE UNIQUE INDEX task_slot ON task (schedule, era, slot, pass) WHERE slot IS NOT NULL;
CREATE INDEX task_schedule ON task (schedule, id) WHERE schedule IS NOT NULL;

-- Arguments above 1 KiB, so that a scan of tasks does not read over them.
CREATE TABLE task_body (
    id   bigint NOT NULL PRIMARY KEY,
    args bytea NOT NULL
);

-- Waiting tasks, found in the order of the claim. The class is the level, plus 4 after a worker was lost: such suspects
-- are claimed alone and only on request.
CREATE TABLE ready (
    id     bigint NOT NULL PRIMARY KEY,
    due    bigint NOT NULL,
    lane   integer NOT NULL,
    n      integer NOT NULL,    -- attempts begun
    spent  integer NOT NULL,
    losses integer NOT NULL,
    class  smallint NOT NULL
);
CREATE INDEX ready_claim ON ready (lane, class, due, id);

-- Running tasks, up to 32 a row, packed as src/packed.rs says: claiming a batch and finishing it write few rows.
CREATE TABLE claim (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    worker bigint NOT NULL,
    at     bigint NOT NULL,
    tasks  bytea NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX claim_worker ON claim (worker);

-- Cancels asked of running tasks, read by their workers' renewals.
CREATE TABLE cancel (
    task   bigint NOT NULL PRIMARY KEY,
    worker bigint NOT NULL
);
CREATE INDEX cancel_worker ON cancel (worker);

-- Ended attempts. `final` is the state in which a task has ended, on the attempt that ended it.
CREATE TABLE attempt (
    task    bigint NOT NULL,
    worker  bigint NOT NULL,
    started bigint NOT NULL,
    ended   bigint NOT NULL,
    n       integer NOT NULL,
    lane    integer NOT NULL,
    outcome smallint NOT NULL,
    final   smallint,
    out     bytea NOT NULL,
    PRIMARY KEY (task, n)
);
CREATE INDEX attempt_final ON attempt (final, lane, task) WHERE final IS NOT NULL;

-- Which tasks ended when, a row a batch, oldest first for retention. Kind 0 is all but failed, 1 is failed.
CREATE TABLE ended (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at    bigint NOT NULL,      -- the earliest end in the row
    kind  smallint NOT NULL,
    tasks bytea NOT NULL
);
CREATE INDEX ended_at ON ended (kind, at, id);

-- Unique keys while they are held.
CREATE TABLE unique_key (
    task    bigint NOT NULL,
    plus    bigint,             -- held for so long after the end
    until   bigint,             -- set when the task has ended and the key outlives it
    target  integer NOT NULL,   -- a method or a queue, by scope
    scope   smallint NOT NULL,
    waiting boolean NOT NULL,   -- held until the first claim
    text    text COLLATE "C" NOT NULL,
    PRIMARY KEY (scope, target, text)
);
CREATE INDEX unique_key_task ON unique_key (task);
CREATE INDEX unique_key_until ON unique_key (until) WHERE until IS NOT NULL;

-- Live occurrences by schedule: what max_pending counts.
CREATE TABLE hold (
    gate bigint NOT NULL,
    task bigint NOT NULL,
    pass integer NOT NULL,      -- 0 for the series itself, which max_pending counts; else the backfill's number
    PRIMARY KEY (gate, task)
);

-- Schedules one of whose occurrences ended at `at`: the next sweep looks whether they have room. Whoever ends a task adds a
-- row and takes no lock on the schedule, so that an end never waits for a sweep, nor a sweep for an end.
CREATE TABLE woken (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    gate bigint NOT NULL,
    at   bigint NOT NULL
);
CREATE INDEX woken_gate ON woken (gate);

-- Registrations. A claim or a finish holds its worker's row in key share mode; who declares a worker dead takes it
-- exclusively, and a renewal is in nobody's way.
CREATE TABLE worker (
    id    bigint NOT NULL PRIMARY KEY,
    until bigint NOT NULL,
    seen  bigint NOT NULL,      -- the last renewal, or the death
    slots integer NOT NULL,
    state smallint NOT NULL,    -- 0 alive, 1 dead
    name  text NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE schedule (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created  bigint NOT NULL,
    hash     bigint NOT NULL,   -- of the last declaration that was applied
    revision bigint NOT NULL,
    name     text COLLATE "C" NOT NULL UNIQUE
);

-- Definitions never change; an edit adds a version. `spec` is JSON without the arguments.
CREATE TABLE definition (
    schedule bigint NOT NULL,
    version  integer NOT NULL,
    spec     text NOT NULL,
    args     bytea NOT NULL,
    PRIMARY KEY (schedule, version)
);

-- Where each schedule stands. `wake` is when a sweep is to look at it: NULL while it is not active, or until one of its
-- occurrences ends. Its row is the schedule's lock.
CREATE TABLE position (
    id          bigint NOT NULL PRIMARY KEY,
    rev         bigint NOT NULL,
    cursor_slot bigint,
    cursor_at   bigint,
    runs        bigint NOT NULL,
    kept_to     bigint,
    wake        bigint,
    era         integer NOT NULL,
    version     integer NOT NULL,
    state       smallint NOT NULL,
    cursor_gap  boolean,
    backfilling boolean NOT NULL,   -- while sweeps take the backfill up, so that the end of an occurrence wakes it
    note        text NOT NULL,
    known_from  bigint,         -- what became of slots before this instant is not known any more
    zone        text,           -- the zone database that the cursor was computed with: its version, an instant, a hash
    backfill    text            -- JSON, the last one under way or over
) WITH (fillfactor = 70);
CREATE INDEX position_wake ON position (wake, id) WHERE wake IS NOT NULL;

-- Slots that were decided not to run: a row a range, and their sums.
CREATE TABLE missed (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule bigint NOT NULL,
    from_at  bigint NOT NULL,
    to_at    bigint NOT NULL,
    count    bigint NOT NULL,
    era      integer NOT NULL,
    reason   smallint NOT NULL,
    exact    boolean NOT NULL
);
CREATE INDEX missed_schedule ON missed (schedule, id);
CREATE INDEX missed_to ON missed (to_at);
CREATE TABLE missed_sum (
    schedule bigint NOT NULL,
    count    bigint NOT NULL,
    reason   smallint NOT NULL,
    PRIMARY KEY (schedule, reason)
);
