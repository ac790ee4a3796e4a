-- Calls that gave the address to the upstream, or may have. A call that certainly had no effect is taken away again, and with the
-- last one the row. Rows of earlier versions keep one for ever. COLLATE "C": names are compared byte by byte, whatever the language
-- of the database.
ALTER TABLE billbridge_addresses ADD COLUMN holds BIGINT NOT NULL DEFAULT 1;
ALTER TABLE billbridge_addresses ADD COLUMN unproven TEXT COLLATE "C"; -- the partner, if no call with its key had succeeded yet; else NULL

CREATE INDEX billbridge_addresses_unproven ON billbridge_addresses (unproven) WHERE unproven IS NOT NULL;

-- Partners with a call that succeeded: their keys are valid.
CREATE TABLE billbridge_proven (
	partner TEXT COLLATE "C" PRIMARY KEY
);

INSERT INTO billbridge_proven SELECT partner FROM billbridge_seen
	UNION SELECT partner FROM billbridge_callbacks UNION SELECT partner FROM billbridge_owners WHERE state = 'owned';
