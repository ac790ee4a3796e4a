-- Creates that were never completed, for the list of unknown outcomes. Each create is in the index until it is completed.
CREATE INDEX billbridge_owners_open ON billbridge_owners (partner, bill) WHERE state = 'pending' AND uncertain = 0 AND creates <> '';

-- Counts with calls that a backend cannot carry, for the kill switch.
ALTER TABLE billbridge_counts ADD COLUMN marked INTEGER NOT NULL DEFAULT 0; -- 1 if there are such calls
UPDATE billbridge_counts SET marked = 1 WHERE instr(data, CAST('"lacks":{' AS BLOB)) > 0;
CREATE INDEX billbridge_counts_marked ON billbridge_counts (partner) WHERE marked = 1;
