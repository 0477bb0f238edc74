-- How often a message was forwarded.
ALTER TABLE messages ADD COLUMN hops INTEGER NOT NULL DEFAULT 0;
