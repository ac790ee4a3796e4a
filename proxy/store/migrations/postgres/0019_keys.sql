-- Further keys of partners. Calls with such a key are calls of the partner, whose ID is the hash of its first key.
CREATE TABLE billbridge_partner_keys (
	key_hash TEXT COLLATE "C" PRIMARY KEY, -- the SHA-256 of the key
	partner  TEXT COLLATE "C" NOT NULL,    -- the partner's ID, which is never a key_hash
	set_by   TEXT NOT NULL,
	set_at   BIGINT NOT NULL
);

-- A gateway that does not know yet that a key is a further one must not record bills under it: they would have a second owner.
CREATE FUNCTION billbridge_owners_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT 1 FROM billbridge_partner_keys WHERE key_hash = NEW.partner) THEN
		RAISE EXCEPTION 'billbridge: a further key of a partner has no bills of its own';
	END IF;
	RETURN NEW;
END $$;

CREATE TRIGGER billbridge_owners_key BEFORE INSERT ON billbridge_owners
	FOR EACH ROW EXECUTE FUNCTION billbridge_owners_key();
