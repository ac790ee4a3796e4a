-- Times are milliseconds since 1970, NULL where there is none.

-- The last callback of an order is looked up when the next one comes, and callbacks of an address when that is swept.
CREATE INDEX billbridge_callbacks_last ON billbridge_callbacks (ordering, seq);
DROP INDEX billbridge_callbacks_address;
CREATE INDEX billbridge_callbacks_address ON billbridge_callbacks (address);
