-- The first tables. A task's row is written once and never updated: where a task is follows from which of the other
-- tables names it. Times are microseconds since 1970 UTC, enums small integers; the numbers are those of src/codes.rs.
--
-- Names and other text are kept as their UTF-8 bytes: they are equal and ordered as bytes are, on every server, whatever its
-- collations do with case, accents or spaces at the end. `CONVERT(name USING utf8mb4)` shows them.
--
-- Every statement can be run again: a migration that was stopped halfway goes on where it was.

CREATE TABLE IF NOT EXISTS punctual_meta (
    name  VARBINARY(40) NOT NULL PRIMARY KEY,
    value VARBINARY(255) NOT NULL
) ENGINE = InnoDB;

-- The next number of each kind: task (drawn in blocks), schedule, worker.
CREATE TABLE IF NOT EXISTS punctual_sequence (
    name VARBINARY(16) NOT NULL PRIMARY KEY,
    next BIGINT NOT NULL
) ENGINE = InnoDB;
INSERT IGNORE INTO punctual_sequence (name, next) VALUES ('task', 1), ('schedule', 1), ('worker', 1);

-- Names are stored once. A lane is a pair of queue and method: a claim for some methods reads only their lanes, and a
-- million tasks that no worker here knows cost it nothing.
CREATE TABLE IF NOT EXISTS punctual_queue (
    id     INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name   VARBINARY(200) NOT NULL,
    paused TINYINT NOT NULL DEFAULT 0,
    UNIQUE KEY punctual_queue_name (name)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS punctual_method (
    id   INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARBINARY(200) NOT NULL,
    UNIQUE KEY punctual_method_name (name)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS punctual_lane (
    id     INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    queue  INT UNSIGNED NOT NULL,
    method INT UNSIGNED NOT NULL,
    UNIQUE KEY punctual_lane_pair (queue, method),
    KEY punctual_lane_method (method)
) ENGINE = InnoDB;

-- Immutable. An occurrence has no arguments, shape or options of its own: they are the definition's of that version.
CREATE TABLE IF NOT EXISTS punctual_task (
    id         BIGINT NOT NULL PRIMARY KEY,
    lane       INT UNSIGNED NOT NULL,
    lvl        TINYINT NOT NULL,
    created    BIGINT NOT NULL,
    due        BIGINT NOT NULL,
    shape      BIGINT,              -- the fingerprint of the method's schema
    args       VARBINARY(1024),     -- NULL with a shape: in punctual_task_body
    options    BLOB,                -- JSON; NULL where nothing is overridden
    unique_key BLOB,                -- JSON with scope, hold and mode, kept so that a redrive takes it again
    schedule   BIGINT,              -- NULL for a task that is no occurrence
    era        INT UNSIGNED,
    slot       BIGINT,              -- NULL for a trigger
    pass       INT UNSIGNED,        -- 0 for the series itself, else the backfill's number
    at         BIGINT,
    run        BIGINT,
    catch_up   TINYINT,
    version    INT UNSIGNED,
    KEY punctual_task_lane (lane, id),
    UNIQUE KEY punctual_task_slot (schedule, era, slot, pass),
    KEY punctual_task_schedule (schedule, id)
) ENGINE = InnoDB;

-- Arguments above 1 KiB, so that a scan of tasks does not read over them.
CREATE TABLE IF NOT EXISTS punctual_task_body (
    id   BIGINT NOT NULL PRIMARY KEY,
    args LONGBLOB NOT NULL
) ENGINE = InnoDB;

-- Waiting tasks, clustered in the order of the claim: a claim that passes over locked rows must not sort. The class is the
-- level, plus 4 after a worker was lost: such suspects are claimed alone and only on request.
CREATE TABLE IF NOT EXISTS punctual_ready (
    lane   INT UNSIGNED NOT NULL,
    class  TINYINT NOT NULL,
    due    BIGINT NOT NULL,
    id     BIGINT NOT NULL,
    n      INT UNSIGNED NOT NULL,   -- attempts begun
    spent  INT UNSIGNED NOT NULL,
    losses INT UNSIGNED NOT NULL,
    gate   BIGINT NOT NULL,         -- the schedule whose occurrence it is; 0 for none
    flags  TINYINT NOT NULL,        -- 1: enqueued with a unique key
    PRIMARY KEY (lane, class, due, id),
    UNIQUE KEY punctual_ready_id (id)
) ENGINE = InnoDB;

-- Running tasks, up to 128 a row, packed as src/packed.rs says: claiming a batch and finishing it write few rows.
CREATE TABLE IF NOT EXISTS punctual_claim (
    id     BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    worker BIGINT NOT NULL,
    at     BIGINT NOT NULL,
    tasks  BLOB NOT NULL,
    KEY punctual_claim_worker (worker)
) ENGINE = InnoDB;

-- Cancels asked of running tasks, read by their workers' renewals.
CREATE TABLE IF NOT EXISTS punctual_cancel (
    task   BIGINT NOT NULL PRIMARY KEY,
    worker BIGINT NOT NULL,
    KEY punctual_cancel_worker (worker)
) ENGINE = InnoDB;

-- Ended attempts. `final` is the state in which a task has ended, on the attempt that ended it.
CREATE TABLE IF NOT EXISTS punctual_attempt (
    task    BIGINT NOT NULL,
    n       INT UNSIGNED NOT NULL,
    worker  BIGINT NOT NULL,
    started BIGINT NOT NULL,
    ended   BIGINT NOT NULL,
    outcome TINYINT NOT NULL,
    final   TINYINT,
    lane    INT UNSIGNED NOT NULL,
    result  LONGBLOB NOT NULL,
    PRIMARY KEY (task, n),
    KEY punctual_attempt_final (final, lane, task)
) ENGINE = InnoDB;

-- Which tasks ended when, a row a batch, oldest first for retention. Kind 0 is all but failed, 1 is failed.
CREATE TABLE IF NOT EXISTS punctual_ended (
    id    BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    kind  TINYINT NOT NULL,
    at    BIGINT NOT NULL,          -- the earliest end in the row
    tasks BLOB NOT NULL,
    KEY punctual_ended_at (kind, at)
) ENGINE = InnoDB;

-- Unique keys while they are held.
CREATE TABLE IF NOT EXISTS punctual_unique_key (
    scope   TINYINT NOT NULL,
    target  INT UNSIGNED NOT NULL,  -- a method or a queue, by scope
    name    VARBINARY(255) NOT NULL,
    task    BIGINT NOT NULL,
    waiting TINYINT NOT NULL,       -- 1: held until the first claim
    plus    BIGINT,                 -- held for so long after the end
    until   BIGINT,                 -- set when the task has ended and the key outlives it
    PRIMARY KEY (scope, target, name),
    KEY punctual_unique_key_task (task),
    KEY punctual_unique_key_until (until)
) ENGINE = InnoDB;

-- Live occurrences by schedule: those of pass 0 are what max_pending counts.
CREATE TABLE IF NOT EXISTS punctual_hold (
    gate BIGINT NOT NULL,
    task BIGINT NOT NULL,
    pass INT UNSIGNED NOT NULL,
    PRIMARY KEY (gate, task)
) ENGINE = InnoDB;

-- Registrations. Claims and finishes lock a row of it in share mode; so leases have a table of their own.
CREATE TABLE IF NOT EXISTS punctual_worker (
    id    BIGINT NOT NULL PRIMARY KEY,
    name  VARBINARY(200) NOT NULL,
    slots INT UNSIGNED NOT NULL,
    state TINYINT NOT NULL,         -- 0 alive, 1 dead
    seen  BIGINT NOT NULL,          -- the registration, or the death
    ended BIGINT NOT NULL,          -- when a dead one's lease ended
    KEY punctual_worker_state (state)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS punctual_lease (
    worker BIGINT NOT NULL PRIMARY KEY,
    ends   BIGINT NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS punctual_schedule (
    id       BIGINT NOT NULL PRIMARY KEY,
    name     VARBINARY(200) NOT NULL,
    created  BIGINT NOT NULL,
    hash     BIGINT NOT NULL,       -- of the last declaration that was applied
    revision BIGINT NOT NULL,
    UNIQUE KEY punctual_schedule_name (name)
) ENGINE = InnoDB;

-- Definitions never change; an edit adds a version. `spec` is JSON without the arguments.
CREATE TABLE IF NOT EXISTS punctual_definition (
    schedule BIGINT NOT NULL,
    version  INT UNSIGNED NOT NULL,
    spec     LONGBLOB NOT NULL,
    args     LONGBLOB NOT NULL,
    PRIMARY KEY (schedule, version)
) ENGINE = InnoDB;

-- Where each schedule stands, and its lock. `wake` is when a sweep is to look at it: NULL while it is not active, or until
-- one of its occurrences ends.
CREATE TABLE IF NOT EXISTS punctual_position (
    id          BIGINT NOT NULL PRIMARY KEY,
    state       TINYINT NOT NULL,
    note        BLOB NOT NULL,
    rev         BIGINT NOT NULL,
    era         INT UNSIGNED NOT NULL,
    version     INT UNSIGNED NOT NULL,
    cursor_slot BIGINT,
    cursor_at   BIGINT,
    cursor_gap  TINYINT,
    runs        BIGINT NOT NULL,
    kept_to     BIGINT,
    wake        BIGINT,
    known_from  BIGINT,             -- what became of slots before it is not known any more
    zone        BLOB,               -- the zone database that the cursor was computed with
    backfill    BLOB,               -- JSON, the last one under way or over
    backfilling TINYINT NOT NULL,   -- 1 while sweeps take the backfill up, so that the end of an occurrence wakes it
    KEY punctual_position_wake (wake)
) ENGINE = InnoDB;

-- Slots that were decided not to run: a row a range, and their sums.
CREATE TABLE IF NOT EXISTS punctual_missed (
    id       BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    schedule BIGINT NOT NULL,
    era      INT UNSIGNED NOT NULL,
    from_at  BIGINT NOT NULL,
    to_at    BIGINT NOT NULL,
    reason   TINYINT NOT NULL,
    slots    BIGINT NOT NULL,
    is_exact TINYINT NOT NULL,
    KEY punctual_missed_schedule (schedule, id),
    KEY punctual_missed_to (to_at)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS punctual_missed_sum (
    schedule BIGINT NOT NULL,
    reason   TINYINT NOT NULL,
    slots    BIGINT NOT NULL,
    PRIMARY KEY (schedule, reason)
) ENGINE = InnoDB;
