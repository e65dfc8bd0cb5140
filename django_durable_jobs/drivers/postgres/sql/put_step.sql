-- Write a checkpoint under the fence, and answer it as stored.
--
-- The job's row is locked, so a claim that is taking it either waits for this write or makes it
-- fail. A sleep or a wait keeps the instants and the snapshot of its first write; a finished step
-- is answered as it is.
--
-- Locks: the job's row, FOR NO KEY UPDATE; the step's row.
-- Index: primary keys.
-- Bound: one row.
\set step_columns `cat fragments/step_columns.sql`
with clock as materialized (
  select statement_timestamp() + :'shift'::interval as now
), held as (
  select j.id, j.claims, j.attempt
    from x_jobs j
   where j.id = :'job_id'::uuid and j.claims = :'claim'::bigint and j.worker_id = :'worker_id'
     and j.state = 'running'
     for no key update
), put as (
  insert into x_job_steps as s (
           job_id, name, seq, status, output, claim, attempt, event, correlation_key, wake_at,
           mark, started_at, finished_at)
  select h.id, :'name', :'seq'::int, :'status', :'output'::jsonb, h.claims, h.attempt, :'event',
         :'correlation_key'::text, coalesce(:'until'::timestamptz, clock.now + :'wait'::interval),
         case when :'status' = 'waiting' then pg_current_snapshot()::text end,
         clock.now - :'took'::interval,
         case when :'status' in ('done', 'timed_out', 'failed') then clock.now end
    from held h, clock
  on conflict (job_id, name) do update
     set status = excluded.status, output = excluded.output, claim = excluded.claim,
         attempt = excluded.attempt, finished_at = excluded.finished_at
   where s.status in ('sleeping', 'waiting')
  returning :step_columns
)
select put.*
  from put
union all
select :step_columns
  from x_job_steps s
  join held h on h.id = s.job_id
 where s.name = :'name' and not exists (select from put);
