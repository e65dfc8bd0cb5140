-- Read the tries of a job that did not end done, or lost steps to a requeue; newest first.
--
-- Locks: none.
-- Index: primary key of x_job_attempts.
-- Bound: the attempts of one job.
select a.claim, a.attempt, a.outcome, a.error_code, a.error_class, a.message, a.traceback,
       a.worker_id, a.started_at, a.finished_at, a.steps::text
  from x_job_attempts a
 where a.job_id = :'job_id'::uuid
 order by a.claim desc;
