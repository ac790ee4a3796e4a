-- Times are milliseconds since 1970, NULL where there is none yet.

CREATE TABLE billbridge_upstreams (
	name TEXT PRIMARY KEY,
	form TEXT NOT NULL,
	url  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE billbridge_addresses (
	id           TEXT PRIMARY KEY,
	upstream     TEXT NOT NULL,
	operation    TEXT NOT NULL,
	partner      TEXT NOT NULL,
	bill         TEXT NOT NULL, -- '' for a registration, and for a bill whose id is not known
	store        TEXT NOT NULL, -- '' for a bill
	form         TEXT NOT NULL,
	url          TEXT NOT NULL,
	registration TEXT UNIQUE,   -- the hash of what makes two registrations the same; NULL for a bill
	created      INTEGER NOT NULL,
	until        INTEGER,
	ends         INTEGER           -- a sweep takes it some time after this; NULL for a registration
) STRICT, WITHOUT ROWID;

CREATE INDEX billbridge_addresses_ends ON billbridge_addresses (ends) WHERE ends IS NOT NULL;
CREATE INDEX billbridge_addresses_upstream ON billbridge_addresses (upstream);

CREATE TABLE billbridge_callbacks (
	seq          INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice, so that a cursor stays true
	id           TEXT NOT NULL UNIQUE,
	address      TEXT NOT NULL,
	upstream     TEXT NOT NULL,
	partner      TEXT NOT NULL,
	bill         TEXT NOT NULL,
	form         TEXT NOT NULL,
	url          TEXT NOT NULL,
	host         TEXT NOT NULL,
	ordering     TEXT NOT NULL, -- rows of one do not overtake each other
	digest       BLOB NOT NULL,
	content_type TEXT NOT NULL,
	received     INTEGER NOT NULL,
	state        TEXT NOT NULL CHECK (state IN ('waiting', 'delivered', 'dead', 'dropped')),
	attempts     INTEGER NOT NULL,
	next         INTEGER NOT NULL,
	due          INTEGER NOT NULL, -- next, or the end of the lease while there is one
	lease        TEXT NOT NULL,    -- '' when no attempt is under way
	last_at      INTEGER,
	last_status  INTEGER NOT NULL,
	last_outcome TEXT NOT NULL,
	done         INTEGER,          -- when it was delivered or dropped
	body         BLOB NOT NULL     -- last, so that a row is read without it
) STRICT;

CREATE INDEX billbridge_callbacks_address ON billbridge_callbacks (address, digest, received);
CREATE INDEX billbridge_callbacks_partner ON billbridge_callbacks (partner, bill, seq);
CREATE INDEX billbridge_callbacks_upstream ON billbridge_callbacks (upstream, seq);
CREATE INDEX billbridge_callbacks_due ON billbridge_callbacks (host, due) WHERE state = 'waiting';
CREATE INDEX billbridge_callbacks_ordering ON billbridge_callbacks (ordering, seq, upstream, received) WHERE state = 'waiting';
CREATE INDEX billbridge_callbacks_dead ON billbridge_callbacks (seq, upstream) WHERE state = 'dead';
CREATE INDEX billbridge_callbacks_done ON billbridge_callbacks (done) WHERE done IS NOT NULL;
