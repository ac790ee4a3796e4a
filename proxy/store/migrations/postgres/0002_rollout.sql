-- Times are milliseconds since 1970, NULL where there is none. COLLATE "C": names are compared byte by byte, whatever the
-- language of the database.

CREATE TABLE billbridge_owners (
	partner   TEXT COLLATE "C" NOT NULL,
	bill      TEXT COLLATE "C" NOT NULL,
	upstream  TEXT COLLATE "C" NOT NULL,
	state     TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'owned', 'released')),
	creates   TEXT COLLATE "C" NOT NULL, -- the tokens of those that are open, each with a blank after it
	uncertain BIGINT NOT NULL,           -- 1 when a create ended that may have taken effect, or that found the id taken
	changed   BIGINT NOT NULL,           -- when it came into its state
	ends      BIGINT,                    -- a sweep takes it some time after this; NULL for never
	PRIMARY KEY (partner, bill),
	CHECK (state <> 'released' OR creates = '' AND uncertain = 0)
);

CREATE INDEX billbridge_owners_ends ON billbridge_owners (ends) WHERE ends IS NOT NULL;

CREATE TABLE billbridge_rollout (
	one         BIGINT PRIMARY KEY CHECK (one = 1), -- there is one row
	revision    BIGINT NOT NULL,
	stopped     BIGINT,                             -- when the kill switch was thrown; NULL when it is not
	stopped_by  TEXT COLLATE "C" NOT NULL,
	restored    BIGINT,                             -- when the store was last declared restored from a backup
	restored_by TEXT COLLATE "C" NOT NULL,
	old_side    TEXT COLLATE "C" NOT NULL,          -- the upstreams between which partners move, or did last; '' before there were any
	new_side    TEXT COLLATE "C" NOT NULL,
	shared      BIGINT, -- 1 when both see the same bills; NULL when none are in force
	alone       TEXT COLLATE "C" NOT NULL, -- where all calls go without a rollout; '' with one
	past        TEXT COLLATE "C" NOT NULL -- upstreams that may have bills which no ledger noted, a line each
);

INSERT INTO billbridge_rollout (one, revision, stopped_by, restored_by, old_side, new_side, alone, past) VALUES (1, 0, '', '', '', '', '', '');

CREATE TABLE billbridge_stages (
	partner TEXT COLLATE "C" PRIMARY KEY, -- '' for the default
	stage   TEXT COLLATE "C" NOT NULL,
	percent BIGINT NOT NULL,
	set_by  TEXT COLLATE "C" NOT NULL,
	set_at  BIGINT NOT NULL,
	forced  BIGINT NOT NULL               -- 1 when it was
);

CREATE TABLE billbridge_audit (
	revision     BIGINT PRIMARY KEY,        -- that the change made
	action       TEXT COLLATE "C" NOT NULL CHECK (action IN ('stage', 'stop', 'resume', 'restored', 'reset')),
	done_by      TEXT COLLATE "C" NOT NULL,
	done_at      BIGINT NOT NULL,
	partner      TEXT COLLATE "C" NOT NULL, -- '' for the default, for all, and where it is nobody's
	from_stage   TEXT COLLATE "C" NOT NULL, -- '' where there was none
	from_percent BIGINT NOT NULL,
	to_stage     TEXT COLLATE "C" NOT NULL,
	to_percent   BIGINT NOT NULL,
	forced       BIGINT NOT NULL
);

CREATE TABLE billbridge_seen (
	partner TEXT COLLATE "C" PRIMARY KEY,
	seen    BIGINT NOT NULL -- the first time
);

CREATE TABLE billbridge_counts (
	version   TEXT COLLATE "C" NOT NULL, -- of the table that they were counted by
	partner   TEXT COLLATE "C" NOT NULL,
	operation TEXT COLLATE "C" NOT NULL,
	data      BYTEA NOT NULL,
	added     BIGINT NOT NULL,           -- when the last of it was
	PRIMARY KEY (version, partner, operation)
);
