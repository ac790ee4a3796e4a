-- Times are milliseconds since 1970, NULL where there is none yet. COLLATE "C": names are compared byte by byte,
-- whatever the language of the database.

CREATE TABLE billbridge_upstreams (
	name TEXT COLLATE "C" PRIMARY KEY,
	form TEXT COLLATE "C" NOT NULL,
	url  TEXT COLLATE "C" NOT NULL
);

CREATE TABLE billbridge_addresses (
	id           TEXT COLLATE "C" PRIMARY KEY,
	upstream     TEXT COLLATE "C" NOT NULL,
	operation    TEXT COLLATE "C" NOT NULL,
	partner      TEXT COLLATE "C" NOT NULL,
	bill         TEXT COLLATE "C" NOT NULL, -- '' for a registration, and for a bill whose id is not known
	store        TEXT COLLATE "C" NOT NULL, -- '' for a bill
	form         TEXT COLLATE "C" NOT NULL,
	url          TEXT COLLATE "C" NOT NULL,
	registration TEXT COLLATE "C" UNIQUE,   -- the hash of what makes two registrations the same; NULL for a bill
	created      BIGINT NOT NULL,
	until        BIGINT,
	ends         BIGINT           -- a sweep takes it some time after this; NULL for a registration
);

CREATE INDEX billbridge_addresses_ends ON billbridge_addresses (ends) WHERE ends IS NOT NULL;
CREATE INDEX billbridge_addresses_upstream ON billbridge_addresses (upstream);

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
	ordering     TEXT COLLATE "C" NOT NULL, -- rows of one do not overtake each other
	digest       BYTEA NOT NULL,
	content_type TEXT COLLATE "C" NOT NULL,
	received     BIGINT NOT NULL,
	state        TEXT COLLATE "C" NOT NULL CHECK (state IN ('waiting', 'delivered', 'dead', 'dropped')),
	attempts     BIGINT NOT NULL,
	next         BIGINT NOT NULL,
	due          BIGINT NOT NULL,           -- next, or the end of the lease while there is one
	lease        TEXT COLLATE "C" NOT NULL, -- '' when no attempt is under way
	last_at      BIGINT,
	last_status  BIGINT NOT NULL,
	last_outcome TEXT COLLATE "C" NOT NULL,
	done         BIGINT,                    -- when it was delivered or dropped
	body         BYTEA NOT NULL
);

CREATE INDEX billbridge_callbacks_address ON billbridge_callbacks (address, digest, received);
CREATE INDEX billbridge_callbacks_partner ON billbridge_callbacks (partner, bill, seq);
CREATE INDEX billbridge_callbacks_upstream ON billbridge_callbacks (upstream, seq);
CREATE INDEX billbridge_callbacks_due ON billbridge_callbacks (host, due) WHERE state = 'waiting';
CREATE INDEX billbridge_callbacks_ordering ON billbridge_callbacks (ordering, seq, upstream, received) WHERE state = 'waiting';
CREATE INDEX billbridge_callbacks_dead ON billbridge_callbacks (seq, upstream) WHERE state = 'dead';
CREATE INDEX billbridge_callbacks_done ON billbridge_callbacks (done) WHERE done IS NOT NULL;
