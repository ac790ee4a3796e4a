-- Calls at the backends of the rollout by the hour, of the last 7 days. Times are milliseconds since 1970.
CREATE TABLE billbridge_hours (
	partner TEXT COLLATE "C" NOT NULL,
	at      BIGINT NOT NULL, -- the start of the hour
	backend SMALLINT NOT NULL CHECK (backend IN (0, 1)), -- 0: old, 1: new
	calls   BIGINT NOT NULL,
	failed  BIGINT NOT NULL, -- of the calls, by the fault of the backend
	-- of the calls, those that took at most so many milliseconds, and more than the column before says
	ms5 INTEGER NOT NULL, ms7 INTEGER NOT NULL, ms10 INTEGER NOT NULL, ms15 INTEGER NOT NULL, ms22 INTEGER NOT NULL, ms33 INTEGER NOT NULL, ms47 INTEGER NOT NULL,
	ms68 INTEGER NOT NULL, ms100 INTEGER NOT NULL, ms150 INTEGER NOT NULL, ms220 INTEGER NOT NULL, ms330 INTEGER NOT NULL, ms470 INTEGER NOT NULL, ms680 INTEGER NOT NULL,
	ms1000 INTEGER NOT NULL, ms1500 INTEGER NOT NULL, ms2200 INTEGER NOT NULL, ms3300 INTEGER NOT NULL, ms4700 INTEGER NOT NULL, ms6800 INTEGER NOT NULL, ms10000 INTEGER NOT NULL,
	ms15000 INTEGER NOT NULL, ms22000 INTEGER NOT NULL, ms33000 INTEGER NOT NULL, ms47000 INTEGER NOT NULL, ms68000 INTEGER NOT NULL,
	PRIMARY KEY (partner, at, backend)
) WITH (fillfactor = 70); -- the rows of the last hour change every few seconds: see 0011_hot.sql

CREATE INDEX billbridge_hours_at ON billbridge_hours (at);
