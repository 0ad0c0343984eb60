-- Backfills, and what they must know. `backfill` is JSON, the last one under way or over; `backfilling` is 1 while sweeps
-- take it up, so that the end of an occurrence wakes it.
ALTER TABLE position ADD COLUMN backfill TEXT;
ALTER TABLE position ADD COLUMN backfilling INTEGER NOT NULL DEFAULT 0;

-- What became of slots before this instant is not known any more.
ALTER TABLE position ADD COLUMN known_from INTEGER;

-- The zone database that the cursor was computed with: its version, an instant, a hash.
ALTER TABLE position ADD COLUMN zone TEXT;

-- 0 for the series itself, which max_pending counts; else the backfill's number.
ALTER TABLE hold ADD COLUMN pass INTEGER NOT NULL DEFAULT 0;
