-- Read a job's stored steps, in order.
--
-- Locks: none.
-- Index: primary key of x_job_steps.
-- Bound: the steps of one job.
select s.name, s.seq, s.status, s.output::text, s.event, s.correlation_key, s.wake_at,
       s.started_at, s.finished_at, s.mark, s.attempt
  from x_job_steps s
 where s.job_id = :'job_id'::uuid
 order by s.seq, s.started_at, s.name;
