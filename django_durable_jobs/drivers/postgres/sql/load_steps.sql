-- Read a job's stored steps, in order.
--
-- Locks: none.
-- Index: primary key of x_job_steps.
-- Bound: the steps of one job.
\set step_columns `cat fragments/step_columns.sql`
select :step_columns
  from x_job_steps s
 where s.job_id = :'job_id'::uuid
 order by s.seq, s.started_at, s.name;
