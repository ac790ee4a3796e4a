-- Times are milliseconds since 1970, NULL where there is none. COLLATE "C": names are compared byte by byte, whatever the
-- language of the database.

-- The last callback of an order is looked up when the next one comes, and callbacks of an address when that is swept. The
-- condition holds for every row: it keeps claims, which do not ask for it, on the index of those that wait.
CREATE INDEX billbridge_callbacks_last ON billbridge_callbacks (ordering, seq) WHERE seq > 0;
DROP INDEX billbridge_callbacks_address;
CREATE INDEX billbridge_callbacks_address ON billbridge_callbacks (address);

CREATE TABLE billbridge_attempts (
	callback BIGINT NOT NULL REFERENCES billbridge_callbacks (seq) ON DELETE CASCADE, -- its seq: they go with it
	number   BIGINT NOT NULL, -- from 1 on, over all replays
	ended    BIGINT NOT NULL,
	took     BIGINT NOT NULL, -- milliseconds
	status   BIGINT NOT NULL, -- HTTP; 0 if there was no answer
	code     TEXT COLLATE "C" NOT NULL, -- of the partner's answer; '' if it had none
	outcome  TEXT COLLATE "C" NOT NULL,
	reason   TEXT COLLATE "C" NOT NULL, -- '' of one that delivered
	PRIMARY KEY (callback, number)
);
