-- What other partitions forward into this one: the last frame of each source, and which of its
-- messages are stored here and may come again, until the source has deleted them.
CREATE TABLE forward_sources (
    source BLOB PRIMARY KEY,
    uid TEXT NOT NULL,
    boot INTEGER NOT NULL,
    sequence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE forwarded (
    source BLOB NOT NULL,
    counter INTEGER NOT NULL,
    PRIMARY KEY (source, counter)
) STRICT, WITHOUT ROWID;
-- Where messages without a key go that there is no room for in this partition.
CREATE TABLE forward_choices (
    id INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL
) STRICT;
