-- pages --
-- Whether the pages, indexes and rows of the file hold together.
PRAGMA integrity_check(20)

-- objects --
-- Tables and indexes, with what made them.
SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name

-- header --
-- Whose file it is.
SELECT namespace_name, namespace_uid, tier, partition_count, partition_index, boot,
    hex(incarnation) AS incarnation FROM header

-- entries --
-- The catalogue, tombstones too.
SELECT entry FROM entities ORDER BY key

-- slots --
-- The figures of every (sub-)queue.
SELECT slot, uid, sub_queue, counter, active, deferred, scheduled, size_bytes, last_enqueued_ms,
    dropped
FROM slots ORDER BY slot

-- measured --
-- Every message's place, state and time, and the texts that count to its size.
SELECT id >> 44 AS slot, id & 17592186044415 AS counter, state, enqueued_ms, expires_ms,
    length(payload) + length(head) AS content_bytes, message_id, partition_key, session_id,
    extra_bytes, format
FROM messages ORDER BY id

-- remembered --
-- The keys of duplicate detection, which count to the quota.
SELECT slot, key FROM history

-- session_states --
-- What is kept for sessions, which counts to the quota.
SELECT slot, session_id, length(state) AS state_bytes FROM session_states

-- sessions_amiss --
-- Entries of sessions that no message has, and messages of such queues without an entry.
SELECT s.slot AS slot, s.counter AS counter FROM session_messages s
    LEFT JOIN messages m ON m.id = s.slot << 44 | s.counter
    WHERE m.id IS NULL OR m.session_id IS NOT s.session_id OR m.state <> s.state
UNION ALL
SELECT id >> 44, id & 17592186044415 FROM messages m
    WHERE id >> 44 IN (SELECT DISTINCT slot FROM session_messages) AND NOT EXISTS (
        SELECT 1 FROM session_messages WHERE slot = m.id >> 44 AND session_id = m.session_id
        AND state = m.state AND counter = m.id & 17592186044415)
LIMIT 20

-- spans --
-- When the messages of every (sub-)queue were enqueued.
SELECT id >> 44 AS slot, count(*) AS messages, min(enqueued_ms) AS oldest_ms,
    max(enqueued_ms) AS newest_ms, sum(delivery_count) AS deliveries
FROM messages GROUP BY id >> 44

-- stored --
-- Whole messages, in the order of their numbers.
SELECT * FROM messages ORDER BY id

-- bodies --
-- Shared bodies, which count to their topics.
SELECT id >> 44 AS slot, length(payload) AS length FROM bodies

-- body_ids --
-- Which shared bodies are stored.
SELECT id FROM bodies

-- body_references --
-- How many messages each shared body is recorded with.
SELECT id, count FROM body_references

-- references --
-- What messages refer to; those of deleted subscriptions, too.
SELECT payload FROM messages WHERE format >= 16

-- body --
-- One shared body.
SELECT payload FROM bodies WHERE id = ?
