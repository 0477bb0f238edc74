-- Frames are remembered by the positions of their messages, no longer by the partition of their
-- first choice, which two parts of a frame could share. What was remembered by the old names is
-- forgotten, and that it is forgotten is remembered.
CREATE TABLE marks (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO marks SELECT 'producers_forgotten_until_ms', at_ms FROM producers
    ORDER BY at_ms DESC LIMIT 1;
DROP TABLE producers;
CREATE TABLE producers (
    id INTEGER PRIMARY KEY,
    producer_id BLOB NOT NULL,
    sequence INTEGER NOT NULL,
    -- Of the first message, in the frame of the first try.
    position INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT;
