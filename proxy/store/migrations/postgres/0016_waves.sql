-- Calls at the backends of the rollout by the hour, of the last 7 days. Times are milliseconds since 1970.
CREATE TABLE billbridge_hours (
	partner TEXT COLLATE "C" NOT NULL,
	at      BIGINT NOT NULL, -- the start of the hour
	backend SMALLINT NOT NULL CHECK (backend IN (0, 1)), -- 0: old, 1: new
	calls   BIGINT NOT NULL,
	failed  BIGINT NOT NULL, -- of the calls, by the fault of the backend
	-- of the calls, those that took at most so many milliseconds, and more than the column before says
	ms5 INTEGER NOT NULL, ms7 INTEGER NOT NULL, ms10 INTEGER NOT NULL, ms15 INTEGER NOT NULL, ms22 INTEGER NOT NULL, ms33 INTEGER NOT NULL, ms47 INTEGER NOT NULL,
	ms68 INTEGER NOT NULL, ms100 INTEGER NOT NULL, ms150 INTEGER NOT NULL, ms220 INTEGER NOT NULL, ms330 INTEGER NOT NULL, ms470 INTEGER NOT NULL, ms680 INTEGER NOT NULL,
	ms1000 INTEGER NOT NULL, ms1500 INTEGER NOT NULL, ms2200 INTEGER NOT NULL, ms3300 INTEGER NOT NULL, ms4700 INTEGER NOT NULL, ms6800 INTEGER NOT NULL, ms10000 INTEGER NOT NULL,
	ms15000 INTEGER NOT NULL, ms22000 INTEGER NOT NULL, ms33000 INTEGER NOT NULL, ms47000 INTEGER NOT NULL, ms68000 INTEGER NOT NULL,
	PRIMARY KEY (partner, at, backend)
) WITH (fillfactor = 70); -- the rows of the last hour change every few seconds: see 0011_hot.sql

CREATE INDEX billbridge_hours_at ON billbridge_hours (at);

-- Waves move many partners by themselves.

CREATE TABLE billbridge_waves (
	name     TEXT COLLATE "C" PRIMARY KEY,
	plan     TEXT COLLATE "C" NOT NULL,    -- JSON, which only the program reads
	state    TEXT COLLATE "C" NOT NULL CHECK (state IN ('running', 'paused', 'rolling_back', 'ended')),
	why      TEXT COLLATE "C" NOT NULL,    -- JSON: why it came into its state; '' if a person wanted it
	state_by TEXT COLLATE "C" NOT NULL,
	since    BIGINT NOT NULL, -- when it came into its state
	created  BIGINT NOT NULL,
	stepped  BIGINT           -- the last step forward
);

CREATE TABLE billbridge_wave_partners (
	wave         TEXT COLLATE "C" NOT NULL,
	partner      TEXT COLLATE "C" NOT NULL,
	place        BIGINT NOT NULL, -- in the order of the wave
	active       BIGINT NOT NULL, -- 1 until the wave has ended: a partner is in one such wave
	from_stage   TEXT COLLATE "C" NOT NULL,    -- its own stage before the wave; '' if it had none
	from_percent BIGINT NOT NULL,
	moved        BIGINT,          -- the last step of the wave
	held         TEXT COLLATE "C" NOT NULL,    -- JSON: why the wave took it back; '' if it did not
	PRIMARY KEY (wave, partner)
);

CREATE INDEX billbridge_wave_partners_active ON billbridge_wave_partners (partner) WHERE active = 1;

-- The gateway that makes the steps of waves. It writes a new beat every second.
CREATE TABLE billbridge_lead (
	one    BIGINT PRIMARY KEY CHECK (one = 1), -- there is one row
	holder TEXT COLLATE "C" NOT NULL,                       -- '' for none
	beat   BIGINT NOT NULL
);

INSERT INTO billbridge_lead (one, holder, beat) VALUES (1, '', 0);

ALTER TABLE billbridge_audit ADD COLUMN evidence TEXT COLLATE "C" NOT NULL DEFAULT ''; -- that the step of a wave relied on

-- The gateway reads bills whose callbacks may be lost. Times are milliseconds since 1970.

ALTER TABLE billbridge_addresses ADD COLUMN member TEXT COLLATE "C" NOT NULL DEFAULT '';   -- of the call; '' if it is not known
ALTER TABLE billbridge_addresses ADD COLUMN merchant TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE billbridge_addresses ADD COLUMN look BIGINT;                      -- when the bill is read; NULL: no more, or a registration
ALTER TABLE billbridge_addresses ADD COLUMN shown TEXT COLLATE "C" NOT NULL DEFAULT '';    -- what its state meant in the last read; '' if it had none
ALTER TABLE billbridge_addresses ADD COLUMN since BIGINT;                     -- when a read showed that state first
ALTER TABLE billbridge_addresses ADD COLUMN missing BIGINT;                   -- since when its callback is missing; NULL: it is not
ALTER TABLE billbridge_addresses ADD COLUMN why TEXT COLLATE "C" NOT NULL DEFAULT '';      -- why no callback was made from the read; '' if none was tried
ALTER TABLE billbridge_callbacks ADD COLUMN says TEXT COLLATE "C" NOT NULL DEFAULT '';     -- what the state in its body means; '' if that is not known

-- Of older bills only those of the last week: their callbacks have not been removed.
UPDATE billbridge_addresses SET look = created
	WHERE bill <> '' AND created > (CAST(extract(epoch FROM now()) AS BIGINT) - 7 * 86400) * 1000;

CREATE INDEX billbridge_addresses_look ON billbridge_addresses (partner, look) WHERE look IS NOT NULL;
CREATE INDEX billbridge_addresses_missing ON billbridge_addresses (missing, upstream) WHERE missing IS NOT NULL;
-- Every upstream reports payments: whether it also reports other states is looked up.
CREATE INDEX billbridge_callbacks_says ON billbridge_callbacks (says, upstream) WHERE says NOT IN ('', 'paid');

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
