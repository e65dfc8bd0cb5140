-- Bound the waits for locks until the transaction ends, and answer what the bound was.
--
-- Locks, index: none.
-- Bound: one row.
select current_setting('lock_timeout'), set_config('lock_timeout', :'timeout', true);
