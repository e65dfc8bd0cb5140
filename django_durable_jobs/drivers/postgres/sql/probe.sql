-- Ask what waits: which queues hold a job to claim, when the next falls due, when a lease lapses.
--
-- Locks: none.
-- Index: x_jobs_claim_idx (one seek for each queue), x_jobs_due_idx (its first entry),
--        x_jobs_running_idx (the rows that are running).
-- Bound: the queues given and the rows that are running.
select array(
         select q.queue
           from unnest(:'queues'::text[]) as q (queue)
          where exists (select from x_jobs j where j.queue = q.queue and j.is_armed)
            and not exists (
                  select from x_job_pauses p where p.kind = 'queue' and p.name = q.queue)),
       (select extract(epoch from j.run_at - (statement_timestamp() + :'shift'::interval))::float8
          from x_jobs j
         where not j.is_armed and j.state in ('ready', 'delayed', 'suspended')
         order by j.run_at
         limit 1),
       (select extract(epoch from
                 min(j.lease_expires_at) - (statement_timestamp() + :'shift'::interval))::float8
          from x_jobs j
         where j.state = 'running' and j.queue = any (:'queues'::text[])
           and not exists (
                 select from x_job_pauses p where p.kind = 'queue' and p.name = j.queue));
