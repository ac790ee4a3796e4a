-- Bills that both backends have, until an operator assigns them to one. Times are milliseconds since 1970.
CREATE TABLE billbridge_doubled (
	partner   TEXT NOT NULL,
	bill      TEXT NOT NULL,
	operation TEXT NOT NULL,
	request   TEXT NOT NULL, -- the id of the call that showed it, as the access log has it; '' if it is not known
	at        INTEGER NOT NULL,
	PRIMARY KEY (partner, bill)
) STRICT, WITHOUT ROWID;

ALTER TABLE billbridge_callbacks ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0; -- how often it was sent again, and not delivered again
ALTER TABLE billbridge_callbacks ADD COLUMN repeated INTEGER; -- when the last time; NULL if it was not
