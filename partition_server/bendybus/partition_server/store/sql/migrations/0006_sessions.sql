-- The messages of session-aware queues by session, and what receivers keep for a session. Queues
-- without sessions have no row in either.
CREATE TABLE session_messages (
    slot INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    state INTEGER NOT NULL,
    counter INTEGER NOT NULL,
    PRIMARY KEY (slot, session_id, state, counter)
) STRICT, WITHOUT ROWID;
CREATE TABLE session_states (
    slot INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    state BLOB NOT NULL,
    updated_ms INTEGER NOT NULL,
    PRIMARY KEY (slot, session_id)
) STRICT, WITHOUT ROWID;
