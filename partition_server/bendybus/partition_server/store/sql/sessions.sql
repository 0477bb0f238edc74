-- slots --
-- The next slot that has messages by session.
SELECT min(slot) FROM session_messages WHERE slot > ?

-- insert --
-- A message that joins a session.
INSERT INTO session_messages (slot, session_id, state, counter) VALUES (?, ?, ?, ?)

-- places --
-- Where messages are, with ids without a gap: read before they leave or change.
SELECT id >> 44, session_id, state, id & 17592186044415 FROM messages
WHERE id BETWEEN ? AND ? AND session_id IS NOT NULL

-- delete --
-- A message that leaves its session.
DELETE FROM session_messages
WHERE slot = ? AND session_id = ? AND state = ? AND counter = ?

-- change --
-- A message whose state becomes another one.
UPDATE session_messages SET state = ?
WHERE slot = ? AND session_id = ? AND state = ? AND counter = ?

-- rows --
-- What can be received of a session next.
SELECT id, m.state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms, delivery_count,
    message_id, partition_key, m.session_id, payload, format, head, changed_properties,
    dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops
FROM session_messages s CROSS JOIN messages m ON m.id = s.slot << 44 | s.counter
WHERE s.slot = ? AND s.session_id = ? AND s.state = 0 AND s.counter > ?
AND (expires_ms IS NULL OR expires_ms > ?) ORDER BY s.counter LIMIT ?

-- head --
-- The number of the first message of a session that can be received.
SELECT s.counter FROM session_messages s CROSS JOIN messages m ON m.id = s.slot << 44 | s.counter
WHERE s.slot = ? AND s.session_id = ? AND s.state = 0
AND (expires_ms IS NULL OR expires_ms > ?) ORDER BY s.counter LIMIT 1

-- discover --
-- Sessions of the messages that can be received, in the order of these.
SELECT id & 17592186044415, session_id FROM messages
WHERE id BETWEEN ? AND ? AND state = 0 AND session_id IS NOT NULL
AND (expires_ms IS NULL OR expires_ms > ?) ORDER BY id LIMIT ?

-- browse --
-- Messages of a session in one state, in order.
SELECT id, m.state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms, delivery_count,
    message_id, partition_key, m.session_id, payload, format, head, changed_properties,
    dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops
FROM session_messages s CROSS JOIN messages m ON m.id = s.slot << 44 | s.counter
WHERE s.slot = ? AND s.session_id = ? AND s.state = ? AND s.counter >= ?
ORDER BY s.counter LIMIT ?

-- next_session --
-- The next session that has messages, by name; whether one of them is active.
SELECT session_id, EXISTS (SELECT 1 FROM session_messages
    WHERE slot = s.slot AND session_id = s.session_id AND state = 0)
FROM session_messages s WHERE slot = ? AND session_id >= ? ORDER BY session_id LIMIT 1

-- with_state --
-- Sessions that have a state, by name.
SELECT session_id FROM session_states WHERE slot = ? AND session_id >= ?
ORDER BY session_id LIMIT ?

-- updated --
-- Sessions that have a state, by name, and when it was set.
SELECT session_id, updated_ms FROM session_states WHERE slot = ? AND session_id >= ?
ORDER BY session_id LIMIT ?

-- count --
-- Messages by session and state after a place. SQLite reads the inner rows as the outer ones want
-- them, so both limits bound the work.
SELECT session_id, state, count(*), max(counter) FROM (
    SELECT session_id, state, counter FROM session_messages
    WHERE slot = ? AND (session_id, state, counter) > (?, ?, ?)
    ORDER BY session_id, state, counter LIMIT ?)
GROUP BY session_id, state LIMIT ?

-- state_sizes --
-- Sessions that have a state, by name, and its size, which is known without reading it.
SELECT session_id, length(state) FROM session_states WHERE slot = ? AND session_id >= ?
ORDER BY session_id LIMIT ?

-- state --
-- What is kept for a session.
SELECT state FROM session_states WHERE slot = ? AND session_id = ?

-- set_state --
-- What is to be kept for a session.
INSERT OR REPLACE INTO session_states (slot, session_id, state, updated_ms) VALUES (?, ?, ?, ?)

-- clear_state --
-- A session for which nothing is kept any more.
DELETE FROM session_states WHERE slot = ? AND session_id = ?
