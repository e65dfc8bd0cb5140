-- Store which version of its code runs a job, under the job's fence.
--
-- Locks: the row.
-- Index: primary key.
-- Bound: one row.
update x_jobs j
   set code_version = :'code_version'
 where j.id = :'job_id'::uuid and j.claims = :'claim'::bigint and j.worker_id = :'worker_id'
   and j.state = 'running'
returning j.id;
