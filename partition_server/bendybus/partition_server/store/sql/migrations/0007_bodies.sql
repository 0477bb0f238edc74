-- Bodies of messages that several subscriptions have, each stored once.
CREATE TABLE bodies (
    id INTEGER PRIMARY KEY,
    payload BLOB NOT NULL
) STRICT;

CREATE TABLE body_references (
    id INTEGER PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT;
CREATE INDEX body_references_none ON body_references (id) WHERE count <= 0;
