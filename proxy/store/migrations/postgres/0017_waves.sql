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
