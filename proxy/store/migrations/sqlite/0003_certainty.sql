-- Times are milliseconds since 1970, NULL where there is none.

ALTER TABLE billbridge_owners ADD COLUMN tried INTEGER; -- when the last create was recorded; NULL: when the state changed
ALTER TABLE billbridge_owners ADD COLUMN denied INTEGER; -- when a caller was last told that there is no such bill
ALTER TABLE billbridge_owners ADD COLUMN estimated INTEGER NOT NULL DEFAULT 0; -- 1 when no caller said when the bill ends: ends is an estimate

ALTER TABLE billbridge_rollout ADD COLUMN started INTEGER; -- when a rollout first ran on this store, until somebody declared that it begins
ALTER TABLE billbridge_rollout ADD COLUMN begun INTEGER; -- when somebody declared that; NULL before
ALTER TABLE billbridge_rollout ADD COLUMN begun_by TEXT NOT NULL DEFAULT '';
ALTER TABLE billbridge_rollout ADD COLUMN config_default TEXT NOT NULL DEFAULT ''; -- the default stage of the config that ran last

-- A store in which a rollout ran before this version keeps its rules.
UPDATE billbridge_rollout SET begun = CAST(strftime('%s', 'now') AS INTEGER) * 1000, begun_by = 'upgrade' WHERE old_side <> '';

ALTER TABLE billbridge_upstreams ADD COLUMN may_move INTEGER; -- when somebody declared that the upstream gets another address; NULL otherwise
ALTER TABLE billbridge_upstreams ADD COLUMN may_move_by TEXT NOT NULL DEFAULT '';

CREATE TABLE billbridge_clock (
	one     INTEGER PRIMARY KEY CHECK (one = 1), -- there is one row
	vouched INTEGER,                             -- the highest time seen that running explains; NULL before the first
	pinged  INTEGER NOT NULL,                    -- how often the store was asked whether it can be written to
	room    TEXT NOT NULL                        -- takes some pages for a moment, to see whether there are any
) STRICT;

INSERT INTO billbridge_clock (one, vouched, pinged, room) SELECT 1, max(t), 0, '' FROM (
	SELECT max(changed) AS t FROM billbridge_owners UNION ALL SELECT max(created) FROM billbridge_addresses
	UNION ALL SELECT max(received) FROM billbridge_callbacks UNION ALL SELECT max(done_at) FROM billbridge_audit);

-- The same table with one more column, and without the list of actions, which the program checks.
CREATE TABLE billbridge_audit_3 (
	revision     INTEGER PRIMARY KEY, -- that the change made
	action       TEXT NOT NULL,
	done_by      TEXT NOT NULL,
	done_at      INTEGER NOT NULL,
	partner      TEXT NOT NULL,       -- '' for the default, for all, and where it is nobody's
	subject      TEXT NOT NULL,       -- the bill or the upstream that the change is about; '' where it is about neither
	from_stage   TEXT NOT NULL,       -- '' where there was none
	from_percent INTEGER NOT NULL,
	to_stage     TEXT NOT NULL,
	to_percent   INTEGER NOT NULL,
	forced       INTEGER NOT NULL
) STRICT;

INSERT INTO billbridge_audit_3 SELECT revision, action, done_by, done_at, partner, '', from_stage, from_percent, to_stage, to_percent, forced FROM billbridge_audit;
DROP TABLE billbridge_audit;
ALTER TABLE billbridge_audit_3 RENAME TO billbridge_audit;
