-- read_header --
-- The fingerprint of the file and its boot number.
SELECT namespace_name, namespace_uid, tier, partition_count, partition_index, boot,
    incarnation, seen_wall_ms, seen_mono_ms, seen_machine FROM header

-- read_versions --
-- The highest versions of what is inside columns; a kind of sub-queue of a later program, or 0.
SELECT (SELECT coalesce(max(version), 0) FROM entities),
    (SELECT coalesce(max(version), 0) FROM producers),
    (SELECT coalesce(max(sub_queue), 0) FROM slots WHERE sub_queue NOT IN (1, 2, 3, 4))

-- write_header --
-- The fingerprint of a new file.
INSERT INTO header (id, namespace_name, namespace_uid, tier, partition_count, partition_index, boot)
VALUES (1, ?, ?, ?, ?, ?, 0)

-- write_incarnation --
-- What tells this file from the one that it was copied from.
UPDATE header SET incarnation = ?

-- raise_boot --
-- One more opening.
UPDATE header SET boot = boot + 1

-- write_seen --
-- The clocks while the file is in use.
UPDATE header SET seen_wall_ms = ?, seen_mono_ms = ?, seen_machine = ?

-- read_entities --
-- The whole catalogue, tombstones too.
SELECT entry FROM entities ORDER BY generation

-- write_entity --
-- An entry of the catalogue, new or changed.
INSERT INTO entities (key, generation, deleted, entry, version) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE
SET generation = excluded.generation, deleted = excluded.deleted, entry = excluded.entry,
    version = excluded.version

-- forget_entity --
-- A name that was deleted so long ago that it is remembered no more.
DELETE FROM entities WHERE key = ?

-- read_slots --
-- The figures of every (sub-)queue.
SELECT slot, uid, sub_queue, counter, active, deferred, scheduled, size_bytes, last_enqueued_ms,
    dropped, destination, lost
FROM slots ORDER BY slot

-- write_slot --
-- The figures of a (sub-)queue, in the transaction of what they count.
INSERT INTO slots (slot, uid, sub_queue, counter, active, deferred, scheduled, size_bytes,
    last_enqueued_ms, lost, dropped, destination)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (slot) DO UPDATE
SET counter = excluded.counter, active = excluded.active, deferred = excluded.deferred,
    scheduled = excluded.scheduled, size_bytes = excluded.size_bytes,
    last_enqueued_ms = excluded.last_enqueued_ms, dropped = excluded.dropped, uid = excluded.uid,
    sub_queue = excluded.sub_queue, destination = excluded.destination, lost = excluded.lost

-- remove_slot --
-- The end of a deleted entity's (sub-)queue.
DELETE FROM slots WHERE slot = ?

-- append_messages --
-- Many messages in one step; the VALUES are repeated as often as there are rows.
INSERT INTO messages (id, state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms,
    delivery_count, message_id, partition_key, session_id, payload, format, head) VALUES

-- append_copies --
-- Many copies of published messages in one step: beside that, the number at their topic.
INSERT INTO messages (id, state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms,
    delivery_count, message_id, partition_key, session_id, payload, format, head,
    enqueued_sequence_number) VALUES

-- append_message --
-- One message with everything that it can have.
INSERT INTO messages (id, state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms,
    delivery_count, message_id, partition_key, session_id, payload, format, head,
    changed_properties, dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- update_message --
-- Abandoned, deferred or no longer locked.
UPDATE messages SET state = ?, delivery_count = ?, changed_properties = ?,
    extra_bytes = extra_bytes + ? WHERE id = ?

-- move_message --
-- Everything of a message but its head and payload, also its id: it is in another queue then.
UPDATE messages SET id = ?, state = ?, enqueued_ms = ?, expires_ms = ?, scheduled_ms = ?,
    time_to_live_ms = ?, delivery_count = ?, message_id = ?, partition_key = ?, session_id = ?,
    changed_properties = ?, dead_letter_reason = ?, dead_letter_error_description = ?,
    dead_letter_source = ?, enqueued_sequence_number = ?, extra_bytes = ?, hops = ?
WHERE id = ?

-- delete_range --
-- Messages with ids without a gap.
DELETE FROM messages WHERE id BETWEEN ? AND ?

-- read_active --
-- The next page of what can be received.
SELECT id, state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms, delivery_count,
    message_id, partition_key, session_id, payload, format, head, changed_properties,
    dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops
FROM messages WHERE id BETWEEN ? AND ? AND state = 0
AND (expires_ms IS NULL OR expires_ms > ?) ORDER BY id LIMIT ?

-- read_one --
-- One message.
SELECT id, state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms, delivery_count,
    message_id, partition_key, session_id, payload, format, head, changed_properties,
    dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops
FROM messages WHERE id = ?

-- read_envelope --
-- One message without head and payload, and their length: SQLite knows it without reading them.
SELECT id, state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms, delivery_count,
    message_id, partition_key, session_id, x'', format, x'', changed_properties,
    dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops, length(payload) + length(head)
FROM messages WHERE id = ?

-- browse --
-- Messages of every state, in order.
SELECT id, state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms, delivery_count,
    message_id, partition_key, session_id, payload, format, head, changed_properties,
    dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops
FROM messages WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?

-- read_summaries --
-- What is to be deleted, without its payloads: SQLite knows their length without reading them.
SELECT id, state, enqueued_ms, 0, length(payload) + length(head), message_id, partition_key,
    session_id, extra_bytes
FROM messages WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?

-- read_expiring --
-- Messages whose time is over.
SELECT id, state, enqueued_ms, expires_ms, length(payload) + length(head), message_id,
    partition_key, session_id, extra_bytes
FROM messages WHERE expires_ms IS NOT NULL AND expires_ms <= ? AND (expires_ms, id) > (?, ?)
ORDER BY expires_ms, id LIMIT ?

-- read_activating --
-- Scheduled messages that are due.
SELECT id, state, enqueued_ms, scheduled_ms, length(payload) + length(head), message_id,
    partition_key, session_id, extra_bytes
FROM messages WHERE state = 2 AND scheduled_ms <= ? AND (scheduled_ms, id) > (?, ?)
ORDER BY scheduled_ms, id LIMIT ?

-- read_activating_of --
-- The same of one slot; by time, which is what it is read on by.
SELECT id, state, enqueued_ms, scheduled_ms, length(payload) + length(head), message_id,
    partition_key, session_id, extra_bytes
FROM messages WHERE state = 2 AND scheduled_ms <= ? AND (scheduled_ms, id) > (?, ?)
    AND +id BETWEEN ? AND ?
ORDER BY scheduled_ms, id LIMIT ?

-- next_expiry --
-- When the next message expires.
SELECT min(expires_ms) FROM messages WHERE expires_ms IS NOT NULL AND expires_ms > ?

-- next_activation --
-- When the next scheduled message is due.
SELECT min(scheduled_ms) FROM messages WHERE state = 2 AND scheduled_ms > ?

-- oldest_key --
-- When the oldest key of a queue was remembered.
SELECT min(at_ms) FROM history WHERE slot = ? AND at_ms >= ?

-- known_key --
-- Whether duplicate detection remembers a key.
SELECT counter, at_ms FROM history WHERE slot = ? AND key = ?

-- read_history --
-- Keys that were remembered before a time.
SELECT slot, key, counter, at_ms FROM history WHERE slot = ? AND at_ms < ?
ORDER BY at_ms, key LIMIT ?

-- remember_key --
-- A key, and the number of the message that had it first.
INSERT OR REPLACE INTO history (slot, key, counter, at_ms) VALUES (?, ?, ?, ?)

-- forget_key --
-- A key whose window is over.
DELETE FROM history WHERE slot = ? AND key = ?

-- read_producers --
-- Frames that are stored, oldest first.
SELECT producer_id, sequence, position, outcome, at_ms, id FROM producers ORDER BY id

-- write_producer --
-- A part of a frame that is stored with this transaction.
INSERT INTO producers (id, producer_id, sequence, position, outcome, at_ms, version)
VALUES (?, ?, ?, ?, ?, ?, ?)

-- forget_producers --
-- Frames in the order of their commits.
DELETE FROM producers WHERE id BETWEEN ? AND ?

-- read_marks --
-- Single numbers, from a name up to another one.
SELECT name, value FROM marks WHERE name >= ? AND name < ?

-- forget_mark --
-- A single number.
DELETE FROM marks WHERE name = ?

-- write_mark --
-- A single number.
INSERT INTO marks (name, value) VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
