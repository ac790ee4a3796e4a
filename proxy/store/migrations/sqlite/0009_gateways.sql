-- The number of transactions of the gateway that has the file open: see failover.go.
CREATE TABLE billbridge_gateways (
	gateway TEXT NOT NULL,    -- a new one at every start
	slot INTEGER NOT NULL,
	number INTEGER NOT NULL,  -- raised by every transaction
	at INTEGER NOT NULL,
	history TEXT NOT NULL,
	PRIMARY KEY (gateway, slot)
) WITHOUT ROWID;
