-- Times are milliseconds since 1970, NULL where there is none.

CREATE TABLE billbridge_owners (
	partner   TEXT NOT NULL,
	bill      TEXT NOT NULL,
	upstream  TEXT NOT NULL,
	state     TEXT NOT NULL CHECK (state IN ('pending', 'owned', 'released')),
	creates   TEXT NOT NULL,    -- the tokens of those that are open, each with a blank after it
	uncertain INTEGER NOT NULL, -- 1 when a create ended that may have taken effect, or that found the id taken
	changed   INTEGER NOT NULL, -- when it came into its state
	ends      INTEGER,          -- a sweep takes it some time after this; NULL for never
	PRIMARY KEY (partner, bill),
	CHECK (state <> 'released' OR creates = '' AND uncertain = 0)
) STRICT, WITHOUT ROWID;

CREATE INDEX billbridge_owners_ends ON billbridge_owners (ends) WHERE ends IS NOT NULL;

CREATE TABLE billbridge_rollout (
	one         INTEGER PRIMARY KEY CHECK (one = 1), -- there is one row
	revision    INTEGER NOT NULL,
	stopped     INTEGER,                             -- when the kill switch was thrown; NULL when it is not
	stopped_by  TEXT NOT NULL,
	restored    INTEGER,                             -- when the store was last declared restored from a backup
	restored_by TEXT NOT NULL,
	old_side    TEXT NOT NULL,                       -- the upstreams between which partners move, or did last; '' before there were any
	new_side    TEXT NOT NULL,
	shared      INTEGER, -- 1 when both see the same bills; NULL when none are in force
	alone       TEXT NOT NULL, -- where all calls go without a rollout; '' with one
	past        TEXT NOT NULL -- upstreams that may have bills which no ledger noted, a line each
) STRICT;

INSERT INTO billbridge_rollout (one, revision, stopped_by, restored_by, old_side, new_side, alone, past) VALUES (1, 0, '', '', '', '', '', '');

CREATE TABLE billbridge_stages (
	partner TEXT PRIMARY KEY, -- '' for the default
	stage   TEXT NOT NULL,
	percent INTEGER NOT NULL,
	set_by  TEXT NOT NULL,
	set_at  INTEGER NOT NULL,
	forced  INTEGER NOT NULL  -- 1 when it was
) STRICT, WITHOUT ROWID;

CREATE TABLE billbridge_audit (
	revision     INTEGER PRIMARY KEY, -- that the change made
	action       TEXT NOT NULL CHECK (action IN ('stage', 'stop', 'resume', 'restored', 'reset')),
	done_by      TEXT NOT NULL,
	done_at      INTEGER NOT NULL,
	partner      TEXT NOT NULL,       -- '' for the default, for all, and where it is nobody's
	from_stage   TEXT NOT NULL,       -- '' where there was none
	from_percent INTEGER NOT NULL,
	to_stage     TEXT NOT NULL,
	to_percent   INTEGER NOT NULL,
	forced       INTEGER NOT NULL
) STRICT;

CREATE TABLE billbridge_seen (
	partner TEXT PRIMARY KEY,
	seen    INTEGER NOT NULL -- the first time
) STRICT, WITHOUT ROWID;

CREATE TABLE billbridge_counts (
	version   TEXT NOT NULL, -- of the table that they were counted by
	partner   TEXT NOT NULL,
	operation TEXT NOT NULL,
	data      BLOB NOT NULL,
	added     INTEGER NOT NULL, -- when the last of it was
	PRIMARY KEY (version, partner, operation)
) STRICT, WITHOUT ROWID;
