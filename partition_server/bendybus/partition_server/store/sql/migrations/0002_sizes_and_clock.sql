-- What properties that were changed and texts of dead letters add to a message's size. Messages of
-- before count without it.
ALTER TABLE messages ADD COLUMN extra_bytes INTEGER NOT NULL DEFAULT 0;
-- When the file was last in use, by the clocks of the machine, and its boot (0: not known). An
-- opening that finds the wall clock elsewhere than these say lets expiry wait.
ALTER TABLE header ADD COLUMN seen_wall_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE header ADD COLUMN seen_mono_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE header ADD COLUMN seen_machine TEXT NOT NULL DEFAULT '';
-- The oldest key is looked for queue by queue.
DROP INDEX history_age;
