-- Times are milliseconds since 1970, NULL where there is none. COLLATE "C": names are compared byte by byte, whatever the
-- language of the database.

ALTER TABLE billbridge_owners ADD COLUMN ended BIGINT; -- when the bill was seen destroyed or cancelled; NULL: it may be open

-- Writes of bills that have no answer, until a read resolves what became of them.
CREATE TABLE billbridge_unknown (
	partner   TEXT COLLATE "C" NOT NULL,
	bill      TEXT COLLATE "C" NOT NULL,
	operation TEXT COLLATE "C" NOT NULL,
	upstream  TEXT COLLATE "C" NOT NULL,
	request   TEXT COLLATE "C" NOT NULL,    -- the id of the call, as the access log has it; '' if it is not known
	at        BIGINT NOT NULL, -- when the call ended without an answer
	finding   TEXT COLLATE "C" NOT NULL,    -- what the last read said of the bill, in the words of the program
	state     TEXT COLLATE "C" NOT NULL,    -- of the bill in that read; '' if it did not show the bill
	amount    TEXT COLLATE "C" NOT NULL,
	read_at   BIGINT,          -- when it was read; NULL if it was not
	PRIMARY KEY (partner, bill, operation)
);

-- What the ledger knows of earlier creates. It has not recorded other writes.
INSERT INTO billbridge_unknown SELECT partner, bill, 'bill.create', upstream, '', changed, 'not asked', '', '', NULL
	FROM billbridge_owners WHERE state = 'pending' AND uncertain = 1;
