-- Bills that both backends have, until an operator assigns them to one. Times are milliseconds since 1970.
CREATE TABLE billbridge_doubled (
	partner   TEXT COLLATE "C" NOT NULL,
	bill      TEXT COLLATE "C" NOT NULL,
	operation TEXT NOT NULL,
	request   TEXT NOT NULL, -- the id of the call that showed it, as the access log has it; '' if it is not known
	at        BIGINT NOT NULL,
	PRIMARY KEY (partner, bill)
);

ALTER TABLE billbridge_callbacks ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0; -- how often it was sent again, and not delivered again
ALTER TABLE billbridge_callbacks ADD COLUMN repeated BIGINT; -- when the last time; NULL if it was not
