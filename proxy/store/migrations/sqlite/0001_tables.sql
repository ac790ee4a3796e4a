-- Readable from version 1.
--
-- The tables of a store. Times are milliseconds since 1970, NULL where there is none. A partner is the SHA-256 of its
-- first key. What is 1 if something is true is else 0.

-- The upstreams of the config that ran last. Rows refer to them by name, so a config cannot change what a name means.
CREATE TABLE billbridge_upstreams (
	name        TEXT PRIMARY KEY,
	form        TEXT NOT NULL,
	url         TEXT NOT NULL,
	may_move    INTEGER,                 -- when somebody declared that the upstream gets another address
	may_move_by TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

-- Callbacks

-- The callback addresses that upstreams got in place of those of partners. A bill that one of them is of is read if its
-- callback may be lost.
CREATE TABLE billbridge_addresses (
	id           TEXT PRIMARY KEY,
	upstream     TEXT NOT NULL,
	operation    TEXT NOT NULL,
	partner      TEXT NOT NULL,
	bill         TEXT NOT NULL,            -- '' for a registration, and for a bill whose id is not known
	store        TEXT NOT NULL,            -- the merchant of a registration, hashed; '' for a bill
	form         TEXT NOT NULL,            -- the partner's
	url          TEXT NOT NULL,            -- the partner's own address, encrypted if there is a key
	registration TEXT UNIQUE,              -- the hash of what makes two registrations the same; NULL for a bill
	created      INTEGER NOT NULL,
	until        INTEGER,                  -- the end of the bill, as the last call said
	ends         INTEGER,                  -- a sweep removes the row some time after this; NULL for a registration
	holds        INTEGER NOT NULL,         -- calls that gave the address to the upstream, or may have
	unproven     TEXT,                     -- the partner, if no call with its key had succeeded yet; else NULL
	member       TEXT NOT NULL,            -- of the call; '' if it is not known
	merchant     TEXT NOT NULL,
	look         INTEGER,                  -- when the bill is read; NULL: no more, or a registration
	shown        TEXT NOT NULL DEFAULT '', -- what its state meant in the last read; '' if it had none
	since        INTEGER,                  -- when a read showed that state first
	missing      INTEGER,                  -- since when its callback is missing; NULL: it is not
	why          TEXT NOT NULL DEFAULT ''  -- why no callback was made from the read; '' if none was tried
) STRICT, WITHOUT ROWID;

-- Addresses to remove, and those whose end is an estimate.
CREATE INDEX billbridge_addresses_ends ON billbridge_addresses (ends) WHERE ends IS NOT NULL;
CREATE INDEX billbridge_addresses_endless ON billbridge_addresses (ends) WHERE until IS NULL AND ends IS NOT NULL;
-- The addresses of a bill, when its end moves.
CREATE INDEX billbridge_addresses_bill ON billbridge_addresses (partner, bill);
-- How many rows a key without a success has.
CREATE INDEX billbridge_addresses_unproven ON billbridge_addresses (unproven) WHERE unproven IS NOT NULL;
-- Bills to read.
CREATE INDEX billbridge_addresses_look ON billbridge_addresses (CAST(partner || '' AS TEXT), look) WHERE look IS NOT NULL;
-- Missing callbacks, of all and of a partner. No other index has the expression, whatever the statistics say.
CREATE INDEX billbridge_addresses_missing ON billbridge_addresses (missing, id)
	WHERE missing IS NOT NULL AND partner <> '';
CREATE INDEX billbridge_addresses_lacks ON billbridge_addresses (CAST(partner || '' AS TEXT), missing)
	WHERE missing IS NOT NULL;

-- The callbacks that were acknowledged: those to deliver, and for some time those that are over.
CREATE TABLE billbridge_callbacks (
	seq          INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice, so that a cursor stays true
	id           TEXT NOT NULL UNIQUE,
	address      TEXT NOT NULL,                     -- '' for an event of the gateway
	upstream     TEXT NOT NULL,
	partner      TEXT NOT NULL,
	bill         TEXT NOT NULL,
	form         TEXT NOT NULL,
	url          TEXT NOT NULL,
	host         TEXT NOT NULL,
	ordering     TEXT NOT NULL,                     -- rows of one do not overtake each other
	first        INTEGER NOT NULL,                  -- 1 for the first of its order that waits: only it is claimed
	digest       BLOB NOT NULL,
	content_type TEXT NOT NULL,
	received     INTEGER NOT NULL,
	state        TEXT NOT NULL,                     -- waiting, delivered, failed, dropped or superseded
	attempts     INTEGER NOT NULL,
	next         INTEGER NOT NULL,
	due          INTEGER NOT NULL,                  -- next, or the end of the lease while there is one
	lease        TEXT NOT NULL,                     -- '' when no attempt is under way
	last_at      INTEGER,
	last_status  INTEGER NOT NULL,
	last_outcome TEXT NOT NULL,
	done         INTEGER,                           -- when it was delivered, dropped or superseded
	erased       INTEGER,                           -- when the body was deleted; NULL: it is there
	repeats      INTEGER NOT NULL DEFAULT 0,        -- how often it was sent again, and not delivered again
	repeated     INTEGER,                           -- when the last time
	says         TEXT NOT NULL,                     -- what the state in its body means; '' if that is not known
	merchant     TEXT NOT NULL DEFAULT '',          -- of the bill; '' if it is not known
	body         BLOB NOT NULL                      -- encrypted as url is; last, so that a row is read without it
) STRICT;

-- What a claim reads. Only it has the condition of a claim, so no statistics choose another index.
CREATE INDEX billbridge_callbacks_due ON billbridge_callbacks (host, due, seq) WHERE first = 1;
-- Those of an order that wait.
CREATE INDEX billbridge_callbacks_ordering ON billbridge_callbacks (ordering, seq) WHERE state = 'waiting';
-- The last callback of an order, when the next one comes. The condition holds for every row: it keeps statements that
-- do not ask for it on the index of those that wait. No index is searched by it, as that of seq is by seq > 0.
CREATE INDEX billbridge_callbacks_last ON billbridge_callbacks (ordering, seq) WHERE seq <> 0;
-- The callbacks of an address, when that is removed.
CREATE INDEX billbridge_callbacks_address ON billbridge_callbacks (address);
-- Lists of a partner, of a bill, and of those that were not delivered.
CREATE INDEX billbridge_callbacks_partner ON billbridge_callbacks (partner, seq);
CREATE INDEX billbridge_callbacks_bill ON billbridge_callbacks (bill, seq);
CREATE INDEX billbridge_callbacks_state ON billbridge_callbacks (state, seq) WHERE state <> 'delivered' AND seq <> 0;
-- The backlog of an upstream, and whether one that is to be dropped has callbacks.
CREATE INDEX billbridge_callbacks_upstream ON billbridge_callbacks (upstream, state, seq);
-- Rows to remove, and bodies to remove.
CREATE INDEX billbridge_callbacks_done ON billbridge_callbacks (done) WHERE done IS NOT NULL;
CREATE INDEX billbridge_callbacks_bodies ON billbridge_callbacks (done) WHERE done IS NOT NULL AND erased IS NULL;
-- Whether an upstream reports a state. Every upstream reports payments.
CREATE INDEX billbridge_callbacks_says ON billbridge_callbacks (says, upstream) WHERE says NOT IN ('', 'paid');

-- The attempts to deliver a callback. They go with it.
CREATE TABLE billbridge_attempts (
	callback INTEGER NOT NULL, -- its seq
	number   INTEGER NOT NULL, -- from 1 on, over all replays
	ended    INTEGER NOT NULL,
	took     INTEGER NOT NULL, -- milliseconds
	status   INTEGER NOT NULL, -- HTTP; 0 if there was no answer
	code     TEXT NOT NULL,    -- of the partner's answer; '' if it had none
	outcome  TEXT NOT NULL,
	reason   TEXT NOT NULL,    -- '' of one that delivered
	PRIMARY KEY (callback, number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER billbridge_attempts_end AFTER DELETE ON billbridge_callbacks BEGIN
	DELETE FROM billbridge_attempts WHERE callback = old.seq;
END;

-- Bills

-- The ledger: what is known of each bill, first of all the upstream that it is at, so that no bill is created at two.
CREATE TABLE billbridge_bills (
	partner   TEXT NOT NULL,
	bill      TEXT NOT NULL,
	version   INTEGER NOT NULL, -- another one after each change
	upstream  TEXT NOT NULL,    -- where it is or may be; '' for nowhere
	state     TEXT NOT NULL CHECK (state IN ('', 'pending', 'owned', 'released')),
	also_at   TEXT NOT NULL,    -- where another merchant has or may have a bill with the id; '' for nowhere
	ends      INTEGER NOT NULL, -- a sweep removes the row some time after this
	estimated INTEGER NOT NULL, -- 1 when no caller said when the bill ends: ends is an estimate
	ended     INTEGER,          -- when the bill was seen destroyed or cancelled; NULL: it may be open
	denied    INTEGER,          -- when a caller was last told that there is no such bill
	due       INTEGER,          -- when the gateway reads the bill next; NULL: it does not
	unknown   INTEGER,          -- when the first write ended whose outcome is unknown; NULL: none is
	resolved  INTEGER,          -- when the last such outcome was resolved; NULL: none was
	doubled   INTEGER,          -- when both upstreams were seen to have the bill; NULL: they were not
	data      TEXT NOT NULL,    -- JSON: all else that is known. Only the program reads it
	PRIMARY KEY (partner, bill)
) STRICT, WITHOUT ROWID;

-- Rows to remove.
CREATE INDEX billbridge_bills_ends ON billbridge_bills (estimated, ends);
-- Reads to make of a partner.
CREATE INDEX billbridge_bills_due ON billbridge_bills (CAST(partner || '' AS TEXT), due) WHERE due IS NOT NULL;
-- Lists of all partners.
CREATE INDEX billbridge_bills_unknown ON billbridge_bills (unknown, partner, bill) WHERE unknown IS NOT NULL;
CREATE INDEX billbridge_bills_resolved ON billbridge_bills (resolved, partner, bill) WHERE resolved IS NOT NULL;
CREATE INDEX billbridge_bills_doubled ON billbridge_bills (doubled, partner, bill) WHERE doubled IS NOT NULL;

-- Partners

-- When a partner was first seen.
CREATE TABLE billbridge_seen (
	partner TEXT PRIMARY KEY,
	seen    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Partners with a call that succeeded: their keys are valid.
CREATE TABLE billbridge_proven (
	partner TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Further keys of partners. Calls with such a key are calls of the partner.
CREATE TABLE billbridge_partner_keys (
	key_hash TEXT PRIMARY KEY, -- the SHA-256 of the key
	partner  TEXT NOT NULL     -- never a key_hash
) STRICT, WITHOUT ROWID;

-- A gateway that does not know yet that a key is a further one must not record bills under it: they would have a second
-- owner.
CREATE TRIGGER billbridge_bills_key BEFORE INSERT ON billbridge_bills
WHEN EXISTS (SELECT 1 FROM billbridge_partner_keys WHERE key_hash = new.partner) BEGIN
	SELECT RAISE(ABORT, 'billbridge: a further key of a partner has no bills of its own');
END;

-- The rollout

-- Its state.
CREATE TABLE billbridge_rollout (
	one            INTEGER PRIMARY KEY CHECK (one = 1), -- there is one row
	revision       INTEGER NOT NULL,
	stopped        INTEGER,                             -- when the kill switch was turned on; NULL while it is off
	stopped_by     TEXT NOT NULL DEFAULT '',
	stopped_reason TEXT NOT NULL DEFAULT '',
	restored       INTEGER,                             -- when the store was last declared restored from a backup
	restored_by    TEXT NOT NULL DEFAULT '',
	old_upstream   TEXT NOT NULL DEFAULT '',            -- between which partners move, or did last; '' before
	new_upstream   TEXT NOT NULL DEFAULT '',
	shared         INTEGER,                             -- 1 when both see the same bills; NULL when none are in force
	alone          TEXT NOT NULL DEFAULT '',            -- where all calls go without a rollout; '' with one
	past           TEXT NOT NULL DEFAULT '',            -- upstreams that may have bills no ledger has, a line each
	started        INTEGER,                             -- when a rollout first ran on this store; NULL once begun
	begun          INTEGER,                             -- when somebody declared that it begins
	begun_by       TEXT NOT NULL DEFAULT '',
	config_default TEXT NOT NULL DEFAULT ''             -- the default stage of the config that ran last
) STRICT;

INSERT INTO billbridge_rollout (one, revision) VALUES (1, 0);

-- The stages of partners.
CREATE TABLE billbridge_stages (
	partner TEXT PRIMARY KEY, -- '' for the default
	stage   TEXT NOT NULL,
	percent INTEGER NOT NULL,
	set_by  TEXT NOT NULL,
	set_at  INTEGER NOT NULL,
	forced  INTEGER NOT NULL  -- 1 when it was set in spite of reasons
) STRICT, WITHOUT ROWID;

-- The audit log. Rows are never removed.
CREATE TABLE billbridge_audit (
	revision     INTEGER PRIMARY KEY, -- that the change made
	action       TEXT NOT NULL,
	done_by      TEXT NOT NULL,
	done_at      INTEGER NOT NULL,
	partner      TEXT NOT NULL,       -- '' for the default, for all, and where it is nobody's
	subject      TEXT NOT NULL,       -- what else the change is about; '' if nothing
	from_stage   TEXT NOT NULL,       -- or another state; '' where there was none
	from_percent INTEGER NOT NULL,
	to_stage     TEXT NOT NULL,
	to_percent   INTEGER NOT NULL,
	forced       INTEGER NOT NULL,
	overridden   TEXT NOT NULL,       -- the reasons in spite of which it was made; '' if there were none
	evidence     TEXT NOT NULL,       -- at that time, or why a wave came into its state
	reason       TEXT NOT NULL        -- of the person; '' if none was given
) STRICT;

-- Entries of an action.
CREATE INDEX billbridge_audit_action ON billbridge_audit (action, revision);

-- What was counted of a partner's calls. Only the program reads data.
CREATE TABLE billbridge_counts (
	version   TEXT NOT NULL,    -- of the table that they were counted by
	partner   TEXT NOT NULL,
	operation TEXT NOT NULL,
	data      BLOB NOT NULL,
	marked    INTEGER NOT NULL, -- 1 if there are calls that a backend cannot carry
	added     INTEGER NOT NULL, -- when the last of it was
	PRIMARY KEY (version, partner, operation)
) STRICT, WITHOUT ROWID;

-- The marked ones, for the kill switch.
CREATE INDEX billbridge_counts_marked ON billbridge_counts (partner) WHERE marked = 1;

-- Waves, which move many partners by themselves.
CREATE TABLE billbridge_waves (
	name     TEXT PRIMARY KEY,
	plan     TEXT NOT NULL,    -- JSON, which only the program reads
	state    TEXT NOT NULL CHECK (state IN ('running', 'paused', 'rolling_back', 'ended')),
	why      TEXT NOT NULL,    -- JSON: why it came into its state; '' if a person wanted it
	state_by TEXT NOT NULL,
	reason   TEXT NOT NULL,    -- of the person who brought it there
	since    INTEGER NOT NULL, -- when it came into its state
	created  INTEGER NOT NULL,
	stepped  INTEGER           -- the last step forward
) STRICT, WITHOUT ROWID;

-- Their partners.
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

-- The wave of a partner.
CREATE INDEX billbridge_wave_partners_active ON billbridge_wave_partners (partner) WHERE active = 1;

-- The store itself

-- Its clock, see clock.go.
CREATE TABLE billbridge_clock (
	one     INTEGER PRIMARY KEY CHECK (one = 1), -- there is one row
	vouched INTEGER,                             -- the highest time seen that running explains; NULL before the first
	room    TEXT NOT NULL                        -- takes some pages for a moment, to see whether there are any
) STRICT;

INSERT INTO billbridge_clock (one, room) VALUES (1, '');

-- The number of transactions of the gateway that has the file open, see failover.go.
CREATE TABLE billbridge_gateways (
	gateway TEXT NOT NULL,    -- a new one at every start
	slot    INTEGER NOT NULL,
	number  INTEGER NOT NULL, -- raised by every transaction
	at      INTEGER NOT NULL, -- of the last one
	history TEXT NOT NULL,
	PRIMARY KEY (gateway, slot)
) STRICT, WITHOUT ROWID;

-- What gateways say of themselves, for operators.
CREATE TABLE billbridge_announced (
	gateway TEXT PRIMARY KEY,
	info    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What the first gateway that opens the store decides.
CREATE TABLE billbridge_secret (
	one    INTEGER PRIMARY KEY CHECK (one = 1), -- there is one row
	value  TEXT NOT NULL,                       -- a random text, which seals callback addresses without a key
	key_id TEXT NOT NULL                        -- of the key that all rows are encrypted with; '' if they are not
) STRICT;
