-- 1 for the first of its order that waits: only it is claimed. A claim reads an index that only these are in.
ALTER TABLE billbridge_callbacks ADD COLUMN first BIGINT NOT NULL DEFAULT 0;
UPDATE billbridge_callbacks SET first = 1 WHERE seq IN (
	SELECT min(seq) FROM billbridge_callbacks WHERE state = 'waiting' GROUP BY ordering);
DROP INDEX billbridge_callbacks_due;
CREATE INDEX billbridge_callbacks_due ON billbridge_callbacks (host, due, seq) WHERE first = 1;
