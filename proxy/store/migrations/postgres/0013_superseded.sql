-- A callback can be superseded: the program checks the states.
ALTER TABLE billbridge_callbacks DROP CONSTRAINT IF EXISTS billbridge_callbacks_state_check;
CREATE INDEX billbridge_callbacks_superseded ON billbridge_callbacks (seq, upstream) WHERE state = 'superseded';
