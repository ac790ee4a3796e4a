-- One row for each transaction that a running gateway can have at once: see failover.go.
CREATE TABLE billbridge_gateways (
	gateway TEXT NOT NULL,    -- a new one at every start
	slot INTEGER NOT NULL,
	number BIGINT NOT NULL,   -- raised by every transaction
	at BIGINT NOT NULL,       -- of the last one, by the server's clock
	history TEXT NOT NULL,    -- of the server on which this gateway found its numbers again
	PRIMARY KEY (gateway, slot)
) WITH (fillfactor = 10);     -- room in the page: an update need not touch the index
