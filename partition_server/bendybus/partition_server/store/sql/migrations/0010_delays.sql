-- Messages that were abandoned with a delay: none of them is received before its time.
CREATE TABLE delays (
    -- Of the message.
    id INTEGER PRIMARY KEY,
    -- Wall clock.
    until_ms INTEGER NOT NULL
) STRICT;
