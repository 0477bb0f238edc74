-- read_leases --
-- The leases of drains.
SELECT uid, sub_queue, epoch, owner, duration_ms FROM leases ORDER BY uid, sub_queue

-- write_lease --
-- A lease that is taken or ended.
INSERT OR REPLACE INTO leases (uid, sub_queue, epoch, owner, duration_ms) VALUES (?, ?, ?, ?, ?)

-- remove_leases --
-- Those of a deleted entity.
DELETE FROM leases WHERE uid = ?

-- count_fences --
-- How many producers are remembered since a time, for each slot.
SELECT slot, count(*) FROM fences WHERE at_ms >= ? GROUP BY slot

-- read_fence --
-- How far a producer came in a slot.
SELECT slot, producer_id, epoch, ordinal, mark, at_ms FROM fences WHERE slot = ? AND producer_id = ?

-- write_fence --
-- How far a producer came now.
INSERT OR REPLACE INTO fences (slot, producer_id, epoch, ordinal, mark, at_ms)
VALUES (?, ?, ?, ?, ?, ?)

-- forget_fences --
-- The oldest ones, written before a time.
DELETE FROM fences WHERE (slot, producer_id) IN
    (SELECT slot, producer_id FROM fences WHERE at_ms < ? ORDER BY at_ms LIMIT ?)

-- forget_slot_fences --
-- Those of a slot that is removed.
DELETE FROM fences WHERE slot = ?
