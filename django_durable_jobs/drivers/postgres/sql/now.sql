-- Ask the store's clock.
--
-- Locks, index: none.
-- Bound: one row.
select statement_timestamp() + :'shift'::interval;
