-- Takes backfills away; the tasks that they made stay.
ALTER TABLE hold DROP COLUMN pass;
ALTER TABLE position DROP COLUMN zone;
ALTER TABLE position DROP COLUMN known_from;
ALTER TABLE position DROP COLUMN backfilling;
ALTER TABLE position DROP COLUMN backfill;
