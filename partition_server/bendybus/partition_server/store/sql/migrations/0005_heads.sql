-- What filters read of a message, beside its body, and the form of both: 0 is a whole message in
-- `payload`, without a head, as all earlier messages are.
ALTER TABLE messages ADD COLUMN format INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN head BLOB NOT NULL DEFAULT x'';
