-- The gateway reads bills whose callbacks may be lost. Times are milliseconds since 1970.

ALTER TABLE billbridge_addresses ADD COLUMN member TEXT NOT NULL DEFAULT '';   -- of the call; '' if it is not known
ALTER TABLE billbridge_addresses ADD COLUMN merchant TEXT NOT NULL DEFAULT '';
ALTER TABLE billbridge_addresses ADD COLUMN look INTEGER;                      -- when the bill is read; NULL: no more, or a registration
ALTER TABLE billbridge_addresses ADD COLUMN shown TEXT NOT NULL DEFAULT '';    -- what its state meant in the last read; '' if it had none
ALTER TABLE billbridge_addresses ADD COLUMN since INTEGER;                     -- when a read showed that state first
ALTER TABLE billbridge_addresses ADD COLUMN missing INTEGER;                   -- since when its callback is missing; NULL: it is not
ALTER TABLE billbridge_addresses ADD COLUMN why TEXT NOT NULL DEFAULT '';      -- why no callback was made from the read; '' if none was tried
ALTER TABLE billbridge_callbacks ADD COLUMN says TEXT NOT NULL DEFAULT '';     -- what the state in its body means; '' if that is not known

-- Of older bills only those of the last week: their callbacks have not been removed.
UPDATE billbridge_addresses SET look = created
	WHERE bill <> '' AND created > (CAST(strftime('%s', 'now') AS INTEGER) - 7 * 86400) * 1000;

CREATE INDEX billbridge_addresses_look ON billbridge_addresses (partner, look) WHERE look IS NOT NULL;
CREATE INDEX billbridge_addresses_missing ON billbridge_addresses (missing, upstream) WHERE missing IS NOT NULL;
-- Every upstream reports payments: whether it also reports other states is looked up.
CREATE INDEX billbridge_callbacks_says ON billbridge_callbacks (says, upstream) WHERE says NOT IN ('', 'paid');
