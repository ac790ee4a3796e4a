-- What seals the callback addresses of a store without store.key: one random text, made by the first gateway that opens the store.
CREATE TABLE billbridge_secret (
	one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
	value TEXT NOT NULL
) STRICT;
