-- Until when rows may be without encryption although there is a store.key, as milliseconds since 1970, and a hash that
-- only a holder of the key can make of it. 0: all rows are encrypted. '': no gateway with a key has opened the store.
ALTER TABLE billbridge_secret ADD COLUMN plain TEXT NOT NULL DEFAULT '';
