-- Which queue of its entity a slot is: 1 main, 2 dead-letter. Until now it was told by whether its
-- number is odd. A row a queue at most, so one step.
ALTER TABLE slots ADD COLUMN sub_queue INTEGER NOT NULL DEFAULT 1;
UPDATE slots SET sub_queue = 2 WHERE slot & 1;
-- 16 random bytes; empty (a copy that no server opened yet): the next opening gives new ones.
ALTER TABLE header ADD COLUMN incarnation BLOB NOT NULL DEFAULT x'';
-- The version of what is inside `entry` and `outcome`: an older program refuses a newer one.
ALTER TABLE entities ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE producers ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
