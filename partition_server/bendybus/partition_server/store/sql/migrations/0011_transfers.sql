-- Of a transfer queue: the UID of the entity that its messages are forwarded to.
ALTER TABLE slots ADD COLUMN destination TEXT NOT NULL DEFAULT '';
