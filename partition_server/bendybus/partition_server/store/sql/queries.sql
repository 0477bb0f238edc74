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

-- write_slots --
-- The figures of (sub-)queues, in the transaction of what they count; the VALUES are repeated.
REPLACE INTO slots (slot, uid, sub_queue, counter, active, deferred, scheduled, size_bytes,
    last_enqueued_ms, lost, dropped, destination) VALUES

-- remove_slot --
-- The end of a deleted entity's (sub-)queue.
DELETE FROM slots WHERE slot = ?

-- append_messages --
-- Many messages in one step; the VALUES are repeated as often as there are rows.
INSERT INTO messages (id, state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms,
    delivery_count, message_id, partition_key, session_id, payload, format, head) VALUES

-- append_rows --
-- Messages with everything that they can have; the VALUES are repeated as often as there are rows.
INSERT INTO messages (id, state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms,
    delivery_count, message_id, partition_key, session_id, payload, format, head,
    changed_properties, dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops) VALUES

-- make_staged --
-- What copies of published messages are made from, inside one commit; in memory.
CREATE TEMP TABLE staged AS SELECT * FROM messages LIMIT 0

-- stage_copies --
-- Messages as they are in the first of their queues; the VALUES are repeated.
INSERT INTO staged (id, state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms,
    delivery_count, message_id, partition_key, session_id, payload, format, head,
    changed_properties, dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops) VALUES

-- append_staged --
-- … in all of their queues: how far each is from the first one, in ids.
INSERT INTO messages (id, state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms,
    delivery_count, message_id, partition_key, session_id, payload, format, head,
    changed_properties, dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops)
SELECT id + shift.value, state, ?, expires_ms, scheduled_ms, time_to_live_ms,
    delivery_count, message_id, partition_key, session_id, payload, format, head,
    changed_properties, dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops
FROM carray(?) AS shift CROSS JOIN staged

-- clear_staged --
-- They are where they belong.
DELETE FROM staged

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

-- session_slots --
-- The next slot that has messages by session.
SELECT min(slot) FROM session_messages WHERE slot > ?

-- session_insert --
-- A message that joins a session.
INSERT INTO session_messages (slot, session_id, state, counter) VALUES (?, ?, ?, ?)

-- session_places --
-- Where messages are, with ids without a gap: read before they leave or change.
SELECT id >> 44, session_id, state, id & 17592186044415 FROM messages
WHERE id BETWEEN ? AND ? AND session_id IS NOT NULL

-- session_delete --
-- A message that leaves its session.
DELETE FROM session_messages
WHERE slot = ? AND session_id = ? AND state = ? AND counter = ?

-- session_change --
-- A message whose state becomes another one.
UPDATE session_messages SET state = ?
WHERE slot = ? AND session_id = ? AND state = ? AND counter = ?

-- session_rows --
-- What is active in a session, what is past its time included.
SELECT id, m.state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms, delivery_count,
    message_id, partition_key, m.session_id, payload, format, head, changed_properties,
    dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops
FROM session_messages s CROSS JOIN messages m ON m.id = s.slot << 44 | s.counter
WHERE s.slot = ? AND s.session_id = ? AND s.state = 0 AND s.counter > ?
ORDER BY s.counter LIMIT ?

-- session_heads --
-- When the first messages of a session expire.
SELECT s.counter, expires_ms
FROM session_messages s CROSS JOIN messages m ON m.id = s.slot << 44 | s.counter
WHERE s.slot = ? AND s.session_id = ? AND s.state = 0 AND s.counter > ?
ORDER BY s.counter LIMIT ?

-- session_discover --
-- Sessions of the messages that can be received, in the order of these.
SELECT id & 17592186044415, session_id FROM messages
WHERE id BETWEEN ? AND ? AND state = 0 AND session_id IS NOT NULL
AND (expires_ms IS NULL OR expires_ms > ?) ORDER BY id LIMIT ?

-- session_browse --
-- Messages of a session in one state, in order.
SELECT id, m.state, enqueued_ms, expires_ms, scheduled_ms, time_to_live_ms, delivery_count,
    message_id, partition_key, m.session_id, payload, format, head, changed_properties,
    dead_letter_reason, dead_letter_error_description, dead_letter_source,
    enqueued_sequence_number, extra_bytes, hops
FROM session_messages s CROSS JOIN messages m ON m.id = s.slot << 44 | s.counter
WHERE s.slot = ? AND s.session_id = ? AND s.state = ? AND s.counter >= ?
ORDER BY s.counter LIMIT ?

-- session_listed --
-- Sessions that have messages or a state, by name; whether a message is active or there is a state.
-- The first ?3 of each kind are looked at, one search of the index for each: they hold the first
-- ?3 of all.
WITH RECURSIVE with_messages(name) AS (
    SELECT min(session_id) FROM session_messages WHERE slot = ?1 AND session_id >= ?2
    UNION ALL
    SELECT (SELECT min(session_id) FROM session_messages WHERE slot = ?1 AND session_id > name)
    FROM with_messages WHERE name IS NOT NULL LIMIT ?3)
SELECT name, max(wanted) FROM (
    SELECT name, EXISTS (SELECT 1 FROM session_messages
        WHERE slot = ?1 AND session_id = name AND state = 0) AS wanted
    FROM with_messages WHERE name IS NOT NULL
    UNION ALL
    SELECT * FROM (SELECT session_id, 1 FROM session_states
        WHERE slot = ?1 AND session_id >= ?2 ORDER BY session_id LIMIT ?3))
GROUP BY name ORDER BY name LIMIT ?3

-- session_with_state --
-- Sessions that have a state, by name.
SELECT session_id FROM session_states WHERE slot = ? AND session_id >= ?
ORDER BY session_id LIMIT ?

-- session_updated --
-- Sessions that have a state, by name, and when it was set.
SELECT session_id, updated_ms FROM session_states WHERE slot = ? AND session_id >= ?
ORDER BY session_id LIMIT ?

-- session_count --
-- Messages by session and state after a place. SQLite reads the inner rows as the outer ones want
-- them, so both limits bound the work.
SELECT session_id, state, count(*), max(counter) FROM (
    SELECT session_id, state, counter FROM session_messages
    WHERE slot = ? AND (session_id, state, counter) > (?, ?, ?)
    ORDER BY session_id, state, counter LIMIT ?)
GROUP BY session_id, state LIMIT ?

-- session_state_sizes --
-- Sessions that have a state, by name, and its size, which is known without reading it.
SELECT session_id, length(state) FROM session_states WHERE slot = ? AND session_id >= ?
ORDER BY session_id LIMIT ?

-- session_state --
-- What is kept for a session.
SELECT state FROM session_states WHERE slot = ? AND session_id = ?

-- session_set_state --
-- What is to be kept for a session.
INSERT OR REPLACE INTO session_states (slot, session_id, state, updated_ms) VALUES (?, ?, ?, ?)

-- session_clear_state --
-- A session for which nothing is kept any more.
DELETE FROM session_states WHERE slot = ? AND session_id = ?

-- body_read --
-- One body.
SELECT payload FROM bodies WHERE id = ?

-- body_insert --
-- Bodies that several messages have; the rows follow.
INSERT INTO bodies (id, payload) VALUES

-- body_insert_count --
-- How many have each; the rows follow.
INSERT INTO body_references (id, count) VALUES

-- body_released --
-- The bodies of messages with ids without a gap, which are about to be deleted.
SELECT payload FROM messages WHERE id BETWEEN ? AND ? AND format >= 16

-- body_release --
-- Some messages less have a body.
UPDATE body_references SET count = count - ? WHERE id = ?

-- body_unreferenced --
-- Bodies that no message has any more.
SELECT r.id, length(b.payload) FROM body_references r JOIN bodies b ON b.id = r.id
WHERE r.count <= 0 ORDER BY r.id LIMIT ?

-- body_of_slot --
-- Bodies that came to a topic.
SELECT id FROM bodies WHERE id BETWEEN ? AND ? LIMIT ?

-- body_remove --
-- A body that no message has.
DELETE FROM bodies WHERE id = ?

-- body_remove_count --
-- … and its count.
DELETE FROM body_references WHERE id = ?

-- delay_read --
-- All messages that wait.
SELECT id, until_ms FROM delays ORDER BY id

-- delay_write --
-- A message that waits from now on.
INSERT INTO delays (id, until_ms) VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET until_ms = excluded.until_ms

-- delay_forget --
-- Messages that wait no more, or are no more.
DELETE FROM delays WHERE id BETWEEN ? AND ?

-- forward_last --
-- The last frame of a source.
SELECT boot, sequence FROM forward_sources WHERE source = ?

-- forward_known --
-- Whether a message of a source is stored here.
SELECT counter FROM forwarded WHERE source = ? AND counter = ?

-- forward_note --
-- A frame of a source.
INSERT INTO forward_sources (source, uid, boot, sequence) VALUES (?, ?, ?, ?)
ON CONFLICT (source) DO UPDATE SET boot = excluded.boot, sequence = excluded.sequence

-- forward_remember --
-- A message that is stored and may come again.
INSERT INTO forwarded (source, counter) VALUES (?, ?)

-- forward_forget --
-- A message that its source has deleted.
DELETE FROM forwarded WHERE source = ? AND counter = ?

-- forward_forget_below --
-- Messages before the first that the source still has.
DELETE FROM forwarded WHERE source = ? AND counter < ?

-- forward_forget_messages_at --
-- Messages of a source, of all incarnations of its file.
DELETE FROM forwarded WHERE source >= ? AND source <= ?

-- forward_forget_sources_at --
-- A source, of all incarnations of its file.
DELETE FROM forward_sources WHERE source >= ? AND source <= ?

-- forward_forget_messages_of --
-- Messages of a source that is deleted.
DELETE FROM forwarded WHERE source IN (SELECT source FROM forward_sources WHERE uid = ?)

-- forward_forget_source --
-- A source that is deleted.
DELETE FROM forward_sources WHERE uid = ?

-- forward_choices --
-- The chosen partitions of messages that are still here.
SELECT forward_choices.id, partition FROM forward_choices JOIN messages USING (id)

-- forward_choose --
-- The partition that a message goes to.
INSERT INTO forward_choices (id, partition) VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET partition = excluded.partition

-- forward_forget_choices --
-- The partitions that messages went to.
DELETE FROM forward_choices WHERE id >= ? AND id <= ?

-- pipeline_read_leases --
-- The leases of drains.
SELECT uid, sub_queue, epoch, owner, duration_ms FROM leases ORDER BY uid, sub_queue

-- pipeline_write_lease --
-- A lease that is taken or ended.
INSERT OR REPLACE INTO leases (uid, sub_queue, epoch, owner, duration_ms) VALUES (?, ?, ?, ?, ?)

-- pipeline_remove_leases --
-- Those of a deleted entity.
DELETE FROM leases WHERE uid = ?

-- pipeline_count_fences --
-- How many producers are remembered since a time, for each slot.
SELECT slot, count(*) FROM fences WHERE at_ms >= ? GROUP BY slot

-- pipeline_read_fence --
-- How far a producer came in a slot.
SELECT slot, producer_id, epoch, ordinal, mark, at_ms FROM fences WHERE slot = ? AND producer_id = ?

-- pipeline_write_fence --
-- How far a producer came now.
INSERT OR REPLACE INTO fences (slot, producer_id, epoch, ordinal, mark, at_ms)
VALUES (?, ?, ?, ?, ?, ?)

-- pipeline_forget_fences --
-- The oldest ones, written before a time.
DELETE FROM fences WHERE (slot, producer_id) IN
    (SELECT slot, producer_id FROM fences WHERE at_ms < ? ORDER BY at_ms LIMIT ?)

-- pipeline_forget_slot_fences --
-- Those of a slot that is removed.
DELETE FROM fences WHERE slot = ?
