-- The filters of open wait s: the first stands on the step, the others in x_job_waits.
(select s.event, s.correlation_key
 union all
 select w.event, w.correlation_key
   from x_job_waits w
  where w.job_id = s.job_id and w.step = s.name and s.alternatives is not null)
