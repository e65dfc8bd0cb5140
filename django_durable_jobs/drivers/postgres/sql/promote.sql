-- Make a waiting job due now.
--
-- Locks: the row.
-- Index: primary key.
-- Bound: one row.
\set job_columns `cat fragments/job_columns.sql`
update x_jobs j
   set state = 'ready', is_armed = true, run_at = statement_timestamp() + :'shift'::interval
 where j.id = :'job_id'::uuid
   and (j.state = 'delayed'
        or (j.state = 'ready' and j.run_at > statement_timestamp() + :'shift'::interval))
returning :job_columns;
