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
