-- Times are milliseconds since 1970, NULL where there is none.

ALTER TABLE billbridge_owners ADD COLUMN ended INTEGER; -- when the bill was seen destroyed or cancelled; NULL: it may be open

-- Writes of bills that have no answer, until a read resolves what became of them.
CREATE TABLE billbridge_unknown (
	partner   TEXT NOT NULL,
	bill      TEXT NOT NULL,
	operation TEXT NOT NULL,
	upstream  TEXT NOT NULL,
	request   TEXT NOT NULL,    -- the id of the call, as the access log has it; '' if it is not known
	at        INTEGER NOT NULL, -- when the call ended without an answer
	finding   TEXT NOT NULL,    -- what the last read said of the bill, in the words of the program
	state     TEXT NOT NULL,    -- of the bill in that read; '' if it did not show the bill
	amount    TEXT NOT NULL,
	read_at   INTEGER,          -- when it was read; NULL if it was not
	PRIMARY KEY (partner, bill, operation)
) STRICT, WITHOUT ROWID;

-- What the ledger knows of earlier creates. It has not recorded other writes.
INSERT INTO billbridge_unknown SELECT partner, bill, 'bill.create', upstream, '', changed, 'not asked', '', '', NULL
	FROM billbridge_owners WHERE state = 'pending' AND uncertain = 1;
