-- read --
-- All messages that wait.
SELECT id, until_ms FROM delays ORDER BY id

-- write --
-- A message that waits from now on.
INSERT INTO delays (id, until_ms) VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET until_ms = excluded.until_ms

-- forget --
-- Messages that wait no more, or are no more.
DELETE FROM delays WHERE id BETWEEN ? AND ?
