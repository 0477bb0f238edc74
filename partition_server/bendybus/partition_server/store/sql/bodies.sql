-- read --
-- One body.
SELECT payload FROM bodies WHERE id = ?

-- insert --
-- Bodies that several messages have; the rows follow.
INSERT INTO bodies (id, payload) VALUES

-- insert_count --
-- How many have each; the rows follow.
INSERT INTO body_references (id, count) VALUES

-- released --
-- The bodies of messages with ids without a gap, which are about to be deleted.
SELECT payload FROM messages WHERE id BETWEEN ? AND ? AND format >= 16

-- release --
-- Some messages less have a body.
UPDATE body_references SET count = count - ? WHERE id = ?

-- unreferenced --
-- Bodies that no message has any more.
SELECT r.id, length(b.payload) FROM body_references r JOIN bodies b ON b.id = r.id
WHERE r.count <= 0 ORDER BY r.id LIMIT ?

-- of_slot --
-- Bodies that came to a topic.
SELECT id FROM bodies WHERE id BETWEEN ? AND ? LIMIT ?

-- remove --
-- A body that no message has.
DELETE FROM bodies WHERE id = ?

-- remove_count --
-- … and its count.
DELETE FROM body_references WHERE id = ?
