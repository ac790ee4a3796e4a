-- Times are milliseconds since 1970, NULL where there is none.

-- The last callback of an order is looked up when the next one comes, and callbacks of an address when that is swept. The
-- condition holds for every row: it keeps claims, which do not ask for it, on the index of those that wait.
CREATE INDEX billbridge_callbacks_last ON billbridge_callbacks (ordering, seq) WHERE seq > 0;
DROP INDEX billbridge_callbacks_address;
CREATE INDEX billbridge_callbacks_address ON billbridge_callbacks (address);

CREATE TABLE billbridge_attempts (
	callback INTEGER NOT NULL, -- its seq: they go with it
	number   INTEGER NOT NULL, -- from 1 on, over all replays
	ended    INTEGER NOT NULL,
	took     INTEGER NOT NULL, -- milliseconds
	status   INTEGER NOT NULL, -- HTTP; 0 if there was no answer
	code     TEXT NOT NULL, -- of the partner's answer; '' if it had none
	outcome  TEXT NOT NULL,
	reason   TEXT NOT NULL, -- '' of one that delivered
	PRIMARY KEY (callback, number)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER billbridge_attempts_end AFTER DELETE ON billbridge_callbacks BEGIN
	DELETE FROM billbridge_attempts WHERE callback = old.seq;
END;
