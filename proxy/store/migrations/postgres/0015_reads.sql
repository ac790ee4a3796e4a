-- The gateway reads the bills of writes with an unknown outcome by itself.

ALTER TABLE billbridge_unknown ADD COLUMN member TEXT COLLATE "C" NOT NULL DEFAULT '';   -- of the call; '' if it is not known
ALTER TABLE billbridge_unknown ADD COLUMN merchant TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE billbridge_unknown ADD COLUMN read_by TEXT COLLATE "C" NOT NULL DEFAULT '';  -- who made the last read, in the words of the program
ALTER TABLE billbridge_unknown ADD COLUMN reads BIGINT NOT NULL DEFAULT 0;     -- those that the gateway has made by itself
ALTER TABLE billbridge_unknown ADD COLUMN next_read BIGINT DEFAULT 0;          -- when it makes the next one; NULL: no more
ALTER TABLE billbridge_unknown ADD COLUMN resolved BIGINT;                     -- when the last read resolved the outcome; NULL: it is unknown

CREATE INDEX billbridge_unknown_due ON billbridge_unknown (partner, next_read, at) WHERE resolved IS NULL;
