-- Bills that both backends have, until an operator assigns them to one. Times are milliseconds since 1970.
CREATE TABLE billbridge_doubled (
	partner   TEXT NOT NULL,
	bill      TEXT NOT NULL,
	operation TEXT NOT NULL,
	request   TEXT NOT NULL, -- the id of the call that showed it, as the access log has it; '' if it is not known
	at        INTEGER NOT NULL,
	PRIMARY KEY (partner, bill)
) STRICT, WITHOUT ROWID;
