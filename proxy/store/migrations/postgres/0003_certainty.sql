-- Times are milliseconds since 1970, NULL where there is none. COLLATE "C": names are compared byte by byte, whatever the
-- language of the database.

ALTER TABLE billbridge_owners ADD COLUMN tried BIGINT; -- when the last create was recorded; NULL: when the state changed
ALTER TABLE billbridge_owners ADD COLUMN denied BIGINT; -- when a caller was last told that there is no such bill
ALTER TABLE billbridge_owners ADD COLUMN estimated BIGINT NOT NULL DEFAULT 0; -- 1 when no caller said when the bill ends: ends is an estimate

ALTER TABLE billbridge_rollout ADD COLUMN started BIGINT; -- when a rollout first ran on this store, until somebody declared that it begins
ALTER TABLE billbridge_rollout ADD COLUMN begun BIGINT; -- when somebody declared that; NULL before
ALTER TABLE billbridge_rollout ADD COLUMN begun_by TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE billbridge_rollout ADD COLUMN config_default TEXT COLLATE "C" NOT NULL DEFAULT ''; -- the default stage of the config that ran last

-- A store in which a rollout ran before this version keeps its rules.
UPDATE billbridge_rollout SET begun = extract(epoch FROM now())::BIGINT * 1000, begun_by = 'upgrade' WHERE old_side <> '';

ALTER TABLE billbridge_upstreams ADD COLUMN may_move BIGINT; -- when somebody declared that the upstream gets another address; NULL otherwise
ALTER TABLE billbridge_upstreams ADD COLUMN may_move_by TEXT COLLATE "C" NOT NULL DEFAULT '';

CREATE TABLE billbridge_clock (
	one     BIGINT PRIMARY KEY CHECK (one = 1), -- there is one row
	vouched BIGINT,                             -- the highest time seen that running explains; NULL before the first
	pinged  BIGINT NOT NULL,                     -- how often the store was asked whether it can be written to
	room    TEXT COLLATE "C" NOT NULL            -- takes some pages for a moment, to see whether there are any
);

INSERT INTO billbridge_clock (one, vouched, pinged, room) SELECT 1, max(t), 0, '' FROM (
	SELECT max(changed) AS t FROM billbridge_owners UNION ALL SELECT max(created) FROM billbridge_addresses
	UNION ALL SELECT max(received) FROM billbridge_callbacks UNION ALL SELECT max(done_at) FROM billbridge_audit) AS seen;

-- The program checks the action.
ALTER TABLE billbridge_audit DROP CONSTRAINT billbridge_audit_action_check;
ALTER TABLE billbridge_audit ADD COLUMN subject TEXT COLLATE "C" NOT NULL DEFAULT ''; -- the bill or the upstream that the change is about; '' where it is about neither
