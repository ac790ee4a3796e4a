-- Nearly every row of owners is updated once, when its create is completed. With room in its page, and if no column that
-- changes is in an index, such an update writes to no index (HOT). So there is no index on creates that are open: their
-- list reads the table.
ALTER TABLE billbridge_owners SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE billbridge_addresses SET (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE billbridge_attempts SET (autovacuum_vacuum_scale_factor = 0.05);
-- Each delivery leaves at least two dead rows and their index entries: what decides when it is due is in an index.
ALTER TABLE billbridge_callbacks SET (autovacuum_vacuum_scale_factor = 0.05);
DROP INDEX billbridge_owners_open; -- last, as it locks the table
