-- Readable from version 1.
--
-- The tables of a store. What the columns are is said in ../sqlite/0001_tables.sql. COLLATE "C": names are compared
-- byte by byte, whatever the language of the database.

-- The upstreams of the config that ran last. Rows refer to them by name, so a config cannot change what a name means.
CREATE TABLE billbridge_upstreams (
	name        TEXT COLLATE "C" PRIMARY KEY,
	form        TEXT COLLATE "C" NOT NULL,
	url         TEXT COLLATE "C" NOT NULL,
	may_move    BIGINT,
	may_move_by TEXT COLLATE "C" NOT NULL DEFAULT ''
);

-- Callbacks

-- The callback addresses that upstreams got in place of those of partners. A bill that one of them is of is read if its
-- callback may be lost.
CREATE TABLE billbridge_addresses (
	id           TEXT COLLATE "C" PRIMARY KEY,
	upstream     TEXT COLLATE "C" NOT NULL,
	operation    TEXT COLLATE "C" NOT NULL,
	partner      TEXT COLLATE "C" NOT NULL,
	bill         TEXT COLLATE "C" NOT NULL,
	store        TEXT COLLATE "C" NOT NULL,
	form         TEXT COLLATE "C" NOT NULL,
	url          TEXT COLLATE "C" NOT NULL,
	registration TEXT COLLATE "C" UNIQUE,
	created      BIGINT NOT NULL,
	until        BIGINT,
	ends         BIGINT,
	holds        BIGINT NOT NULL,
	unproven     TEXT COLLATE "C",
	member       TEXT COLLATE "C" NOT NULL,
	merchant     TEXT COLLATE "C" NOT NULL,
	look         BIGINT,
	shown        TEXT COLLATE "C" NOT NULL DEFAULT '',
	since        BIGINT,
	missing      BIGINT,
	why          TEXT COLLATE "C" NOT NULL DEFAULT ''
) WITH (autovacuum_vacuum_scale_factor = 0.05);

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

-- The callbacks that were acknowledged: those to deliver, and for some time those that are over. Each delivery leaves
-- at least two dead rows and their index entries, so they are vacuumed early.
CREATE TABLE billbridge_callbacks (
	seq          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id           TEXT COLLATE "C" NOT NULL UNIQUE,
	address      TEXT COLLATE "C" NOT NULL,
	upstream     TEXT COLLATE "C" NOT NULL,
	partner      TEXT COLLATE "C" NOT NULL,
	bill         TEXT COLLATE "C" NOT NULL,
	form         TEXT COLLATE "C" NOT NULL,
	url          TEXT COLLATE "C" NOT NULL,
	host         TEXT COLLATE "C" NOT NULL,
	ordering     TEXT COLLATE "C" NOT NULL,
	first        BIGINT NOT NULL,
	digest       BYTEA NOT NULL,
	content_type TEXT COLLATE "C" NOT NULL,
	received     BIGINT NOT NULL,
	state        TEXT COLLATE "C" NOT NULL,
	attempts     BIGINT NOT NULL,
	next         BIGINT NOT NULL,
	due          BIGINT NOT NULL,
	lease        TEXT COLLATE "C" NOT NULL,
	last_at      BIGINT,
	last_status  BIGINT NOT NULL,
	last_outcome TEXT COLLATE "C" NOT NULL,
	done         BIGINT,
	erased       BIGINT,
	repeats      BIGINT NOT NULL DEFAULT 0,
	repeated     BIGINT,
	says         TEXT COLLATE "C" NOT NULL,
	merchant     TEXT COLLATE "C" NOT NULL DEFAULT '',
	body         BYTEA NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);

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
	callback BIGINT NOT NULL REFERENCES billbridge_callbacks (seq) ON DELETE CASCADE,
	number   BIGINT NOT NULL,
	ended    BIGINT NOT NULL,
	took     BIGINT NOT NULL,
	status   BIGINT NOT NULL,
	code     TEXT COLLATE "C" NOT NULL,
	outcome  TEXT COLLATE "C" NOT NULL,
	reason   TEXT COLLATE "C" NOT NULL,
	PRIMARY KEY (callback, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- Bills

-- The ledger: what is known of each bill, first of all the upstream that it is at, so that no bill is created at two. Nearly every row is updated once,
-- when its create is completed. With room in its page, and if no column that changes is in an index, such an update
-- writes to no index (HOT). So there is no index on creates that are open.
CREATE TABLE billbridge_bills (
	partner   TEXT COLLATE "C" NOT NULL,
	bill      TEXT COLLATE "C" NOT NULL,
	version   BIGINT NOT NULL,
	upstream  TEXT COLLATE "C" NOT NULL,
	state     TEXT COLLATE "C" NOT NULL CHECK (state IN ('', 'pending', 'owned', 'released')),
	also_at   TEXT COLLATE "C" NOT NULL,
	ends      BIGINT NOT NULL,
	estimated BIGINT NOT NULL,
	ended     BIGINT,
	denied    BIGINT,
	due       BIGINT,
	unknown   BIGINT,
	resolved  BIGINT,
	doubled   BIGINT,
	data      TEXT COLLATE "C" NOT NULL,
	PRIMARY KEY (partner, bill)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

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
	partner TEXT COLLATE "C" PRIMARY KEY,
	seen    BIGINT NOT NULL
);

-- Partners with a call that succeeded: their keys are valid.
CREATE TABLE billbridge_proven (
	partner TEXT COLLATE "C" PRIMARY KEY
);

-- Further keys of partners. Calls with such a key are calls of the partner.
CREATE TABLE billbridge_partner_keys (
	key_hash TEXT COLLATE "C" PRIMARY KEY,
	partner  TEXT COLLATE "C" NOT NULL
);

-- A gateway that does not know yet that a key is a further one must not record bills under it: they would have a second
-- owner.
CREATE FUNCTION billbridge_bills_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT 1 FROM billbridge_partner_keys WHERE key_hash = NEW.partner) THEN
		RAISE EXCEPTION 'billbridge: a further key of a partner has no bills of its own';
	END IF;
	RETURN NEW;
END $$;

CREATE TRIGGER billbridge_bills_key BEFORE INSERT ON billbridge_bills
	FOR EACH ROW EXECUTE FUNCTION billbridge_bills_key();

-- The rollout

-- Its state.
CREATE TABLE billbridge_rollout (
	one            BIGINT PRIMARY KEY CHECK (one = 1),
	revision       BIGINT NOT NULL,
	stopped        BIGINT,
	stopped_by     TEXT COLLATE "C" NOT NULL DEFAULT '',
	stopped_reason TEXT COLLATE "C" NOT NULL DEFAULT '',
	restored       BIGINT,
	restored_by    TEXT COLLATE "C" NOT NULL DEFAULT '',
	old_upstream   TEXT COLLATE "C" NOT NULL DEFAULT '',
	new_upstream   TEXT COLLATE "C" NOT NULL DEFAULT '',
	shared         BIGINT,
	alone          TEXT COLLATE "C" NOT NULL DEFAULT '',
	past           TEXT COLLATE "C" NOT NULL DEFAULT '',
	started        BIGINT,
	begun          BIGINT,
	begun_by       TEXT COLLATE "C" NOT NULL DEFAULT '',
	config_default TEXT COLLATE "C" NOT NULL DEFAULT ''
);

INSERT INTO billbridge_rollout (one, revision) VALUES (1, 0);

-- The stages of partners.
CREATE TABLE billbridge_stages (
	partner TEXT COLLATE "C" PRIMARY KEY,
	stage   TEXT COLLATE "C" NOT NULL,
	percent BIGINT NOT NULL,
	set_by  TEXT COLLATE "C" NOT NULL,
	set_at  BIGINT NOT NULL,
	forced  BIGINT NOT NULL
);

-- The audit log. Rows are never removed.
CREATE TABLE billbridge_audit (
	revision     BIGINT PRIMARY KEY,
	action       TEXT COLLATE "C" NOT NULL,
	done_by      TEXT COLLATE "C" NOT NULL,
	done_at      BIGINT NOT NULL,
	partner      TEXT COLLATE "C" NOT NULL,
	subject      TEXT COLLATE "C" NOT NULL,
	from_stage   TEXT COLLATE "C" NOT NULL,
	from_percent BIGINT NOT NULL,
	to_stage     TEXT COLLATE "C" NOT NULL,
	to_percent   BIGINT NOT NULL,
	forced       BIGINT NOT NULL,
	overridden   TEXT COLLATE "C" NOT NULL,
	evidence     TEXT COLLATE "C" NOT NULL,
	reason       TEXT COLLATE "C" NOT NULL
);

-- Entries of an action.
CREATE INDEX billbridge_audit_action ON billbridge_audit (action, revision);

-- What was counted of a partner's calls. Only the program reads data.
CREATE TABLE billbridge_counts (
	version   TEXT COLLATE "C" NOT NULL,
	partner   TEXT COLLATE "C" NOT NULL,
	operation TEXT COLLATE "C" NOT NULL,
	data      BYTEA NOT NULL,
	marked    BIGINT NOT NULL,
	added     BIGINT NOT NULL,
	PRIMARY KEY (version, partner, operation)
);

-- The marked ones, for the kill switch.
CREATE INDEX billbridge_counts_marked ON billbridge_counts (partner) WHERE marked = 1;

-- Waves, which move many partners by themselves.
CREATE TABLE billbridge_waves (
	name     TEXT COLLATE "C" PRIMARY KEY,
	plan     TEXT COLLATE "C" NOT NULL,
	state    TEXT COLLATE "C" NOT NULL CHECK (state IN ('running', 'paused', 'rolling_back', 'ended')),
	why      TEXT COLLATE "C" NOT NULL,
	state_by TEXT COLLATE "C" NOT NULL,
	reason   TEXT COLLATE "C" NOT NULL,
	since    BIGINT NOT NULL,
	created  BIGINT NOT NULL,
	stepped  BIGINT
);

-- Their partners.
CREATE TABLE billbridge_wave_partners (
	wave         TEXT COLLATE "C" NOT NULL,
	partner      TEXT COLLATE "C" NOT NULL,
	place        BIGINT NOT NULL,
	active       BIGINT NOT NULL,
	from_stage   TEXT COLLATE "C" NOT NULL,
	from_percent BIGINT NOT NULL,
	moved        BIGINT,
	held         TEXT COLLATE "C" NOT NULL,
	PRIMARY KEY (wave, partner)
);

-- The wave of a partner.
CREATE INDEX billbridge_wave_partners_active ON billbridge_wave_partners (partner) WHERE active = 1;

-- The store itself

-- Its clock, see clock.go.
CREATE TABLE billbridge_clock (
	one     BIGINT PRIMARY KEY CHECK (one = 1),
	vouched BIGINT,
	room    TEXT COLLATE "C" NOT NULL
);

INSERT INTO billbridge_clock (one, room) VALUES (1, '');

-- One row for each transaction that a running gateway can have at once, see failover.go. There is room in the page: an
-- update need not touch the index.
CREATE TABLE billbridge_gateways (
	gateway TEXT COLLATE "C" NOT NULL,
	slot    BIGINT NOT NULL,
	number  BIGINT NOT NULL,
	at      BIGINT NOT NULL,
	history TEXT COLLATE "C" NOT NULL,
	PRIMARY KEY (gateway, slot)
) WITH (fillfactor = 10);

-- What gateways say of themselves, for operators.
CREATE TABLE billbridge_announced (
	gateway TEXT COLLATE "C" PRIMARY KEY,
	info    TEXT COLLATE "C" NOT NULL
);

-- What the first gateway that opens the store decides.
CREATE TABLE billbridge_secret (
	one    BIGINT PRIMARY KEY CHECK (one = 1),
	value  TEXT COLLATE "C" NOT NULL,
	key_id TEXT COLLATE "C" NOT NULL
);
