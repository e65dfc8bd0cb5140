-- Store a progress value of a running job, under its fence.
--
-- Locks: the row.
-- Index: primary key.
-- Bound: one row.
update x_jobs j
   set progress = :'progress'::jsonb
 where j.id = :'job_id'::uuid and j.claims = :'claim'::bigint and j.worker_id = :'worker_id'
   and j.state = 'running'
returning j.id;
