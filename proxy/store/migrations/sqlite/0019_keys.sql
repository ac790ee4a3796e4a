-- Further keys of partners. Calls with such a key are calls of the partner, whose ID is the hash of its first key.
CREATE TABLE billbridge_partner_keys (
	key_hash TEXT PRIMARY KEY, -- the SHA-256 of the key
	partner  TEXT NOT NULL,    -- the partner's ID, which is never a key_hash
	set_by   TEXT NOT NULL,
	set_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A gateway that does not know yet that a key is a further one must not record bills under it: they would have a second owner.
CREATE TRIGGER billbridge_owners_key BEFORE INSERT ON billbridge_owners
WHEN EXISTS (SELECT 1 FROM billbridge_partner_keys WHERE key_hash = new.partner) BEGIN
	SELECT RAISE(ABORT, 'billbridge: a further key of a partner has no bills of its own');
END;
