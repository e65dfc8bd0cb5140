-- Count unfinished and dead jobs by queue and state; each row falls in one part.
--
-- Done and cancelled rows, which retention keeps by the million, are not read.
--
-- Locks: none.
-- Index: x_jobs_claim_idx, x_jobs_due_idx, x_jobs_running_idx, x_jobs_unhappy_idx.
-- Bound: the rows that are not done or cancelled.
select part.queue, part.state, sum(part.jobs)::bigint,
       max(part.oldest)
  from (
    select j.queue, j.state, count(*) as jobs,
           extract(epoch from
             statement_timestamp() + :'shift'::interval - min(j.run_at))::float8 as oldest
      from x_jobs j
     where j.is_armed
     group by j.queue, j.state
    union all
    select j.queue, j.state, count(*), null
      from x_jobs j
     where not j.is_armed and j.state in ('ready', 'delayed', 'suspended')
     group by j.queue, j.state
    union all
    select j.queue, j.state, count(*), null
      from x_jobs j
     where j.state = 'running'
     group by j.queue, j.state
    union all
    select j.queue, j.state, count(*), null
      from x_jobs j
     where j.state in ('failed', 'dead')
     group by j.queue, j.state) as part
 group by part.queue, part.state
 order by part.queue, part.state;
