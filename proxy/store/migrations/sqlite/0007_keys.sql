-- Times are milliseconds since 1970, NULL where there is none.

ALTER TABLE billbridge_addresses ADD COLUMN key_id TEXT NOT NULL DEFAULT ''; -- of the key that url is encrypted with; '' if it is not
ALTER TABLE billbridge_callbacks ADD COLUMN key_id TEXT NOT NULL DEFAULT ''; -- of the key that url and body are encrypted with; '' if they are not
ALTER TABLE billbridge_callbacks ADD COLUMN erased INTEGER; -- when the body was deleted; NULL: it is there

CREATE INDEX billbridge_addresses_key ON billbridge_addresses (key_id) WHERE key_id <> '';
CREATE INDEX billbridge_callbacks_key ON billbridge_callbacks (key_id) WHERE key_id <> '';
CREATE INDEX billbridge_callbacks_bodies ON billbridge_callbacks (done) WHERE done IS NOT NULL AND erased IS NULL;
