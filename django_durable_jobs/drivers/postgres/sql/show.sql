-- Read one job.
--
-- Locks: none.
-- Index: primary key.
-- Bound: one row.
\set job_columns `cat fragments/job_columns.sql`
select :job_columns
  from x_jobs j
 where j.id = :'job_id'::uuid;
