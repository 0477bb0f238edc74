-- The tables of a file of v0.6.0 (format 12), as its schema.sql had them. Never changed.
CREATE TABLE header (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    namespace_name TEXT NOT NULL,
    namespace_uid TEXT NOT NULL,
    tier TEXT NOT NULL,
    partition_count INTEGER NOT NULL,
    partition_index INTEGER NOT NULL,
    boot INTEGER NOT NULL,
    seen_wall_ms INTEGER NOT NULL DEFAULT 0,
    seen_mono_ms INTEGER NOT NULL DEFAULT 0,
    seen_machine TEXT NOT NULL DEFAULT '',
    incarnation BLOB NOT NULL DEFAULT x''
) STRICT;
CREATE TABLE entities (
    key TEXT PRIMARY KEY,
    generation INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    entry TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1
) STRICT, WITHOUT ROWID;
CREATE TABLE slots (
    slot INTEGER PRIMARY KEY,
    uid TEXT NOT NULL,
    counter INTEGER NOT NULL,
    active INTEGER NOT NULL,
    deferred INTEGER NOT NULL,
    scheduled INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    last_enqueued_ms INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    sub_queue INTEGER NOT NULL DEFAULT 1,
    destination TEXT NOT NULL DEFAULT '',
    lost INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    state INTEGER NOT NULL,
    enqueued_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    scheduled_ms INTEGER NOT NULL,
    time_to_live_ms INTEGER NOT NULL,
    delivery_count INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    partition_key TEXT NOT NULL,
    session_id TEXT,
    payload BLOB NOT NULL,
    changed_properties BLOB,
    dead_letter_reason TEXT,
    dead_letter_error_description TEXT,
    dead_letter_source TEXT,
    enqueued_sequence_number INTEGER NOT NULL DEFAULT 0,
    extra_bytes INTEGER NOT NULL DEFAULT 0,
    format INTEGER NOT NULL DEFAULT 0,
    head BLOB NOT NULL DEFAULT x'',
    hops INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX messages_expiring ON messages (expires_ms, id) WHERE expires_ms IS NOT NULL;
CREATE INDEX messages_scheduled ON messages (scheduled_ms, id) WHERE state = 2;
CREATE TABLE history (
    slot INTEGER NOT NULL,
    key TEXT NOT NULL,
    counter INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (slot, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX history_oldest ON history (slot, at_ms, key);
CREATE TABLE producers (
    id INTEGER PRIMARY KEY,
    producer_id BLOB NOT NULL,
    sequence INTEGER NOT NULL,
    position INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE TABLE marks (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
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
CREATE TABLE bodies (
    id INTEGER PRIMARY KEY,
    payload BLOB NOT NULL
) STRICT;
CREATE TABLE body_references (
    id INTEGER PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT;
CREATE INDEX body_references_none ON body_references (id) WHERE count <= 0;
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
CREATE TABLE forward_choices (
    id INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL
) STRICT;
CREATE TABLE delays (
    id INTEGER PRIMARY KEY,
    until_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE leases (
    uid TEXT NOT NULL,
    sub_queue INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    owner TEXT NOT NULL,
    duration_ms INTEGER NOT NULL,
    PRIMARY KEY (uid, sub_queue)
) STRICT, WITHOUT ROWID;
CREATE TABLE fences (
    slot INTEGER NOT NULL,
    producer_id BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    mark BLOB NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (slot, producer_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX fences_oldest ON fences (at_ms);
