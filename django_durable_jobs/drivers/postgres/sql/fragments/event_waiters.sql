-- The jobs of which an open wait is ended by the event of this id, name, key and address. An
-- event for all is looked up by its key and by no key; one for a job, among that job's waits. No
-- key is the empty text in the index, which no key is.
(select s.job_id
   from (select s.job_id, s.name as step, s.event, s.correlation_key
           from x_job_steps s
          where s.status = 'waiting' and not s.is_set_aside and s.event = :'name'
            and coalesce(s.correlation_key, '') in ('', coalesce(:'key'::text, ''))
            and :'to'::uuid is null
         union all
         select w.job_id, w.step, w.event, w.correlation_key
           from x_job_waits w
          where w.event = :'name' and w.correlation_key is null and :'to'::uuid is null
         union all
         select w.job_id, w.step, w.event, w.correlation_key
           from x_job_waits w
          where w.event = :'name' and w.correlation_key = :'key'::text and :'to'::uuid is null
         union all
         select s.job_id, s.name, s.event, s.correlation_key
           from x_job_steps s
          where s.status = 'waiting' and not s.is_set_aside and s.job_id = :'to'::uuid
            and s.event = :'name'
         union all
         select w.job_id, w.step, w.event, w.correlation_key
           from x_job_waits w
          where w.job_id = :'to'::uuid and w.event = :'name') f
   join x_job_steps s on s.job_id = f.job_id and s.name = f.step and s.status = 'waiting'
   join x_job_events e on e.id = :'id'::uuid
  where :event_ends_wait)
