-- last --
-- The last frame of a source.
SELECT boot, sequence FROM forward_sources WHERE source = ?

-- known --
-- Whether a message of a source is stored here.
SELECT counter FROM forwarded WHERE source = ? AND counter = ?

-- note --
-- A frame of a source.
INSERT INTO forward_sources (source, uid, boot, sequence) VALUES (?, ?, ?, ?)
ON CONFLICT (source) DO UPDATE SET boot = excluded.boot, sequence = excluded.sequence

-- remember --
-- A message that is stored and may come again.
INSERT INTO forwarded (source, counter) VALUES (?, ?)

-- forget --
-- A message that its source has deleted.
DELETE FROM forwarded WHERE source = ? AND counter = ?

-- forget_below --
-- Messages before the first that the source still has.
DELETE FROM forwarded WHERE source = ? AND counter < ?

-- forget_messages_at --
-- Messages of a source, of all incarnations of its file.
DELETE FROM forwarded WHERE source >= ? AND source <= ?

-- forget_sources_at --
-- A source, of all incarnations of its file.
DELETE FROM forward_sources WHERE source >= ? AND source <= ?

-- forget_messages_of --
-- Messages of a source that is deleted.
DELETE FROM forwarded WHERE source IN (SELECT source FROM forward_sources WHERE uid = ?)

-- forget_source --
-- A source that is deleted.
DELETE FROM forward_sources WHERE uid = ?

-- choices --
-- The chosen partitions of messages that are still here.
SELECT forward_choices.id, partition FROM forward_choices JOIN messages USING (id)

-- choose --
-- The partition that a message goes to.
INSERT INTO forward_choices (id, partition) VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET partition = excluded.partition

-- forget_choices --
-- The partitions that messages went to.
DELETE FROM forward_choices WHERE id >= ? AND id <= ?
