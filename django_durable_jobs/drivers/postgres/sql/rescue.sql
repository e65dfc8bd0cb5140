-- Take again the running jobs whose lease lapsed; bury those on their final attempt.
--
-- A buried job is settled here and answered once, by the statement that settled it.
--
-- Locks: the lapsed rows in id order, SKIP LOCKED; then held siblings and parents of the buried.
-- Index: x_jobs_running_idx; the update by primary key; x_jobs_live_children_idx and
--        x_jobs_held_children_idx.
-- Bound: :limit rows, and so many siblings and parents; reads the rows that are running.
\set end_children `cat fragments/end_children.sql`
with clock as materialized (
  select statement_timestamp() + :'shift'::interval as now
), lapsed as (
  select j.id, j.claims, j.attempt, j.worker_id, j.started_at,
         j.attempt >= j.max_attempts as is_final
    from x_jobs j, clock
   where j.state = 'running'
     and j.lease_expires_at < clock.now
     and j.queue = any (:'queues'::text[])
     and not exists (
           select from x_job_pauses p where p.kind = 'queue' and p.name = j.queue)
   order by j.id
   limit :'limit'::int
     for no key update of j skip locked
), moved as (
  update x_jobs j
     set state = case when not l.is_final then 'running'
                      when j.name = any (:'drop_exhausted'::text[]) then 'failed'
                      else 'dead' end,
         attempt = case when l.is_final then j.attempt else j.attempt + 1 end,
         claims = case when l.is_final then j.claims else j.claims + 1 end,
         worker_id = case when l.is_final then j.worker_id else :'worker_id' end,
         lease_expires_at = case when not l.is_final then clock.now + :'lease'::interval end,
         started_at = case when l.is_final then j.started_at else clock.now end,
         finished_at = case when l.is_final then clock.now end,
         last_error = case when l.is_final then :'final_error' else j.last_error end,
         error_code = case when l.is_final then '' else j.error_code end,
         error_class = case when l.is_final then '' else j.error_class end,
         stop_reason = case when l.is_final then :'stop_reason' else '' end
    from lapsed l, clock
   where j.id = l.id
  returning j.id, j.claims, j.name, j.queue, j.input::text as input, j.attempt, j.max_attempts,
            j.tenant_id, j.enqueued_by, j.trace_parent, j.created_at, clock.now as claimed_at,
            j.unknown_since, j.code_version, j.generation, j.state, j.last_error,
            j.awaited_version, j.family_id, j.parent_id, j.parent_step
), history as (
  insert into x_job_attempts (
           job_id, claim, attempt, outcome, message, worker_id, started_at, finished_at)
  select l.id, l.claims, l.attempt, case when l.is_final then m.state else 'lapsed' end,
         case when l.is_final then :'final_error' else :'lapse_error' end,
         coalesce(l.worker_id, ''), l.started_at, clock.now
    from lapsed l
    join moved m on m.id = l.id, clock
  on conflict (job_id, claim) do nothing
), ended as (
  select m.id, m.family_id, m.parent_id, m.parent_step, false as was_held
    from moved m
   where m.family_id is not null and m.state <> 'running'
), :end_children
select m.id, m.claims, m.name, m.queue, m.input, m.attempt, m.max_attempts, m.tenant_id,
       m.enqueued_by, m.trace_parent, m.created_at, m.claimed_at, m.unknown_since,
       m.code_version, m.generation, m.state, m.last_error,
       ended.parent_id, ended.parent_step, array(select woken.queue from woken),
       m.awaited_version
  from moved m
  left join ended on ended.id = m.id
 order by m.id;
