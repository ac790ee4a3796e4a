-- Calls at the backends of the rollout by the hour, of the last 7 days. Times are milliseconds since 1970.
CREATE TABLE billbridge_hours (
	partner TEXT NOT NULL,
	at      INTEGER NOT NULL, -- the start of the hour
	backend INTEGER NOT NULL CHECK (backend IN (0, 1)), -- 0: old, 1: new
	calls   INTEGER NOT NULL,
	failed  INTEGER NOT NULL, -- of the calls, by the fault of the backend
	-- of the calls, those that took at most so many milliseconds, and more than the column before says
	ms5 INTEGER NOT NULL, ms7 INTEGER NOT NULL, ms10 INTEGER NOT NULL, ms15 INTEGER NOT NULL, ms22 INTEGER NOT NULL, ms33 INTEGER NOT NULL, ms47 INTEGER NOT NULL,
	ms68 INTEGER NOT NULL, ms100 INTEGER NOT NULL, ms150 INTEGER NOT NULL, ms220 INTEGER NOT NULL, ms330 INTEGER NOT NULL, ms470 INTEGER NOT NULL, ms680 INTEGER NOT NULL,
	ms1000 INTEGER NOT NULL, ms1500 INTEGER NOT NULL, ms2200 INTEGER NOT NULL, ms3300 INTEGER NOT NULL, ms4700 INTEGER NOT NULL, ms6800 INTEGER NOT NULL, ms10000 INTEGER NOT NULL,
	ms15000 INTEGER NOT NULL, ms22000 INTEGER NOT NULL, ms33000 INTEGER NOT NULL, ms47000 INTEGER NOT NULL, ms68000 INTEGER NOT NULL,
	PRIMARY KEY (partner, at, backend)
) STRICT, WITHOUT ROWID;

CREATE INDEX billbridge_hours_at ON billbridge_hours (at);

-- Waves move many partners by themselves.

CREATE TABLE billbridge_waves (
	name     TEXT PRIMARY KEY,
	plan     TEXT NOT NULL,    -- JSON, which only the program reads
	state    TEXT NOT NULL CHECK (state IN ('running', 'paused', 'rolling_back', 'ended')),
	why      TEXT NOT NULL,    -- JSON: why it came into its state; '' if a person wanted it
	state_by TEXT NOT NULL,
	since    INTEGER NOT NULL, -- when it came into its state
	created  INTEGER NOT NULL,
	stepped  INTEGER           -- the last step forward
) STRICT, WITHOUT ROWID;

CREATE TABLE billbridge_wave_partners (
	wave         TEXT NOT NULL,
	partner      TEXT NOT NULL,
	place        INTEGER NOT NULL, -- in the order of the wave
	active       INTEGER NOT NULL, -- 1 until the wave has ended: a partner is in one such wave
	from_stage   TEXT NOT NULL,    -- its own stage before the wave; '' if it had none
	from_percent INTEGER NOT NULL,
	moved        INTEGER,          -- the last step of the wave
	held         TEXT NOT NULL,    -- JSON: why the wave took it back; '' if it did not
	PRIMARY KEY (wave, partner)
) STRICT, WITHOUT ROWID;

CREATE INDEX billbridge_wave_partners_active ON billbridge_wave_partners (partner) WHERE active = 1;

-- The gateway that makes the steps of waves. It writes a new beat every second.
CREATE TABLE billbridge_lead (
	one    INTEGER PRIMARY KEY CHECK (one = 1), -- there is one row
	holder TEXT NOT NULL,                       -- '' for none
	beat   INTEGER NOT NULL
) STRICT;

INSERT INTO billbridge_lead (one, holder, beat) VALUES (1, '', 0);

ALTER TABLE billbridge_audit ADD COLUMN evidence TEXT NOT NULL DEFAULT ''; -- that the step of a wave relied on

-- The gateway reads bills whose callbacks may be lost. Times are milliseconds since 1970.

ALTER TABLE billbridge_addresses ADD COLUMN member TEXT NOT NULL DEFAULT '';   -- of the call; '' if it is not known
ALTER TABLE billbridge_addresses ADD COLUMN merchant TEXT NOT NULL DEFAULT '';
ALTER TABLE billbridge_addresses ADD COLUMN look INTEGER;                      -- when the bill is read; NULL: no more, or a registration
ALTER TABLE billbridge_addresses ADD COLUMN shown TEXT NOT NULL DEFAULT '';    -- what its state meant in the last read; '' if it had none
ALTER TABLE billbridge_addresses ADD COLUMN since INTEGER;                     -- when a read showed that state first
ALTER TABLE billbridge_addresses ADD COLUMN missing INTEGER;                   -- since when its callback is missing; NULL: it is not
ALTER TABLE billbridge_addresses ADD COLUMN why TEXT NOT NULL DEFAULT '';      -- why no callback was made from the read; '' if none was tried
ALTER TABLE billbridge_callbacks ADD COLUMN says TEXT NOT NULL DEFAULT '';     -- what the state in its body means; '' if that is not known

-- Of older bills only those of the last week: their callbacks have not been removed.
UPDATE billbridge_addresses SET look = created
	WHERE bill <> '' AND created > (CAST(strftime('%s', 'now') AS INTEGER) - 7 * 86400) * 1000;

CREATE INDEX billbridge_addresses_look ON billbridge_addresses (partner, look) WHERE look IS NOT NULL;
CREATE INDEX billbridge_addresses_missing ON billbridge_addresses (missing, upstream) WHERE missing IS NOT NULL;
-- Every upstream reports payments: whether it also reports other states is looked up.
CREATE INDEX billbridge_callbacks_says ON billbridge_callbacks (says, upstream) WHERE says NOT IN ('', 'paid');

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
