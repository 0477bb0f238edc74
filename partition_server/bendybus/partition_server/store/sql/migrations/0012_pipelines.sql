-- The highest number that expired, or was batch-deleted, without being received.
ALTER TABLE slots ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;

-- Leases of drains; the registrar has those of all entities.
CREATE TABLE leases (
    uid TEXT NOT NULL,
    -- As in `slots`.
    sub_queue INTEGER NOT NULL,
    -- Rises with every drain.
    epoch INTEGER NOT NULL,
    owner TEXT NOT NULL,
    -- 0: it was ended.
    duration_ms INTEGER NOT NULL,
    PRIMARY KEY (uid, sub_queue)
) STRICT, WITHOUT ROWID;

-- How far producers of data pipelines came: what they repeat is not stored again.
CREATE TABLE fences (
    slot INTEGER NOT NULL,
    producer_id BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    -- Of the last message that is stored.
    ordinal INTEGER NOT NULL,
    -- Opaque: the producer recognizes its work by it.
    mark BLOB NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (slot, producer_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX fences_oldest ON fences (at_ms);
