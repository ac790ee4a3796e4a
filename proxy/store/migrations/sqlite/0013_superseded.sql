-- A callback can be superseded: the program checks the states. No row changes, so the table is not copied. The index
-- also makes other connections read the definition again.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, ' CHECK (state IN (''waiting'', ''delivered'', ''dead'', ''dropped''))', '')
	WHERE name = 'billbridge_callbacks';
PRAGMA writable_schema = RESET;
CREATE INDEX billbridge_callbacks_superseded ON billbridge_callbacks (seq, upstream) WHERE state = 'superseded';
