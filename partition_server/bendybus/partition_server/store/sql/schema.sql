-- The file of one partition. Read docs/reference/data-file.md for the story of these tables.

CREATE TABLE header (
    -- One row.
    id INTEGER PRIMARY KEY CHECK (id = 1),
    namespace_name TEXT NOT NULL,
    namespace_uid TEXT NOT NULL,
    tier TEXT NOT NULL,
    partition_count INTEGER NOT NULL,
    partition_index INTEGER NOT NULL,
    -- Rises with every opening of the file; lock tokens of earlier ones are void.
    boot INTEGER NOT NULL,
    -- When the file was last in use, by the clocks of the machine, and its boot; 0: not known.
    seen_wall_ms INTEGER NOT NULL DEFAULT 0,
    seen_mono_ms INTEGER NOT NULL DEFAULT 0,
    seen_machine TEXT NOT NULL DEFAULT '',
    -- 16 random bytes; empty (a copy that no server opened yet): the next opening gives new ones.
    incarnation BLOB NOT NULL DEFAULT x''
) STRICT;

CREATE TABLE entities (
    -- The name in lower case: names are compared without regard to case.
    key TEXT PRIMARY KEY,
    generation INTEGER NOT NULL,
    deleted INTEGER NOT NULL,
    -- The whole entry as JSON.
    entry TEXT NOT NULL,
    -- Of what is inside `entry`: an older program refuses a newer one.
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
    -- 1 main, 2 dead-letter, 3 transfer, 4 transfer dead-letter
    sub_queue INTEGER NOT NULL DEFAULT 1,
    -- Of a transfer queue: the UID of the entity that its messages are forwarded to.
    destination TEXT NOT NULL DEFAULT '',
    -- The highest number that expired, or was batch-deleted, without being received.
    lost INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE messages (
    -- slot << 44 | counter: a queue is a range of ids, in the order of its numbers.
    id INTEGER PRIMARY KEY,
    -- 0 active, 1 deferred, 2 scheduled
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
    -- What changed properties and texts of dead letters add to the size.
    extra_bytes INTEGER NOT NULL DEFAULT 0,
    -- 0: the payload is a whole message; 1: head and payload are its parts (domain/message_format.py).
    format INTEGER NOT NULL DEFAULT 0,
    -- What filters read; empty in format 0.
    head BLOB NOT NULL DEFAULT x'',
    -- How often it was forwarded.
    hops INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Partial: a message without an end or a schedule costs no index entry.
CREATE INDEX messages_expiring ON messages (expires_ms, id) WHERE expires_ms IS NOT NULL;
CREATE INDEX messages_scheduled ON messages (scheduled_ms, id) WHERE state = 2;

-- What duplicate detection remembers.
CREATE TABLE history (
    slot INTEGER NOT NULL,
    key TEXT NOT NULL,
    counter INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (slot, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX history_oldest ON history (slot, at_ms, key);

-- Parts of producers' frames that are stored, oldest first: a repeat gets the same answer.
CREATE TABLE producers (
    id INTEGER PRIMARY KEY,
    producer_id BLOB NOT NULL,
    sequence INTEGER NOT NULL,
    -- Of the first message, in the frame of the first try.
    position INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    -- Of what is inside `outcome`.
    version INTEGER NOT NULL DEFAULT 1
) STRICT;

-- Single numbers: producers_forgotten_until_ms, when the newest frame that is forgotten was stored;
-- followed by a slash and the UID of an entity: the same of that one. See sqlite_producers.py.
CREATE TABLE marks (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The messages of session-aware queues, in the order of each session. Queues without sessions have
-- none here, nor do dead-letter sub-queues.
CREATE TABLE session_messages (
    slot INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    -- As in `messages`.
    state INTEGER NOT NULL,
    counter INTEGER NOT NULL,
    PRIMARY KEY (slot, session_id, state, counter)
) STRICT, WITHOUT ROWID;

-- What receivers keep for a session; it counts to the quota and outlives the messages.
CREATE TABLE session_states (
    slot INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    state BLOB NOT NULL,
    -- Wall clock of the last change.
    updated_ms INTEGER NOT NULL,
    PRIMARY KEY (slot, session_id)
) STRICT, WITHOUT ROWID;

-- Bodies of messages that several subscriptions have, each stored once.
CREATE TABLE bodies (
    -- The id that the message had at its topic: slot << 44 | counter.
    id INTEGER PRIMARY KEY,
    payload BLOB NOT NULL
) STRICT;

-- How many messages have a body; a table of its own, as counting down must not write the body.
CREATE TABLE body_references (
    id INTEGER PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT;
CREATE INDEX body_references_none ON body_references (id) WHERE count <= 0;

-- What forwards into this partition from other ones: the last frame of each source.
CREATE TABLE forward_sources (
    -- UID, sub-queue and partition of the source, and the incarnation of its file.
    source BLOB PRIMARY KEY,
    uid TEXT NOT NULL,
    -- Of the last frame: the opening of the source's file, and the number within it.
    boot INTEGER NOT NULL,
    sequence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Messages of a source that are stored here and may come again, until it has deleted them.
CREATE TABLE forwarded (
    source BLOB NOT NULL,
    -- The number of the message in its slot at the source.
    counter INTEGER NOT NULL,
    PRIMARY KEY (source, counter)
) STRICT, WITHOUT ROWID;

-- Where messages without a key go that there is no room for in this partition.
CREATE TABLE forward_choices (
    -- Of the message.
    id INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL
) STRICT;

-- Messages that were abandoned with a delay: none of them is received before its time.
CREATE TABLE delays (
    -- Of the message.
    id INTEGER PRIMARY KEY,
    -- Wall clock.
    until_ms INTEGER NOT NULL
) STRICT;

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
