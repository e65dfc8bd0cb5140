-- Lock a running job's row under its fence until the transaction ends.
--
-- The last statement before COMMIT of a transaction that must not commit without the lease.
--
-- Locks: the row, FOR NO KEY UPDATE.
-- Index: primary key.
-- Bound: one row.
select j.id
  from x_jobs j
 where j.id = :'job_id'::uuid and j.claims = :'claim'::bigint and j.worker_id = :'worker_id'
   and j.state = 'running'
   for no key update;
