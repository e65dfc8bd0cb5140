-- Delete a job that is not running, with its steps and attempts.
--
-- Locks: the row and its children.
-- Index: primary keys.
-- Bound: one job.
with gone as (
  delete from x_jobs j
   where j.id = :'job_id'::uuid and j.state <> 'running'
  returning j.id
), steps as (
  delete from x_job_steps s using gone where s.job_id = gone.id
), waits as (
  delete from x_job_waits w using gone where w.job_id = gone.id
), attempts as (
  delete from x_job_attempts a using gone where a.job_id = gone.id
)
select gone.id from gone;
