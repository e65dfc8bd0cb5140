-- Write a checkpoint under the fence, and answer it as stored.
--
-- The job's row is locked, so a claim that is taking it either waits for this write or makes it
-- fail. A sleep, a wait or a call keeps the instants and the snapshot of its first write; of an
-- open wait only the cursor moves; a finished step is answered as it is.
--
-- A wait for any event since the enqueue counts from there, by the clock and by the snapshot.
--
-- Locks: the job's row, FOR NO KEY UPDATE; the step's row and its further events.
-- Index: primary keys.
-- Bound: one row, and one for each further event of a wait.
\set step_columns `cat fragments/step_columns.sql`
with clock as materialized (
  select statement_timestamp() + :'shift'::interval as now
), held as (
  select j.id, j.claims, j.attempt, j.mark, j.created_at
    from x_jobs j
   where j.id = :'job_id'::uuid and j.claims = :'claim'::bigint and j.worker_id = :'worker_id'
     and j.state = 'running'
     for no key update
), put as (
  insert into x_job_steps as s (
           job_id, name, seq, status, output, claim, attempt, event, correlation_key, wake_at,
           mark, alternatives, cursor_at, cursor_id, cursor_mark, refused, family_id, children,
           children_at_once, started_at, finished_at)
  select h.id, :'name', :'seq'::int, :'status', :'output'::jsonb, h.claims, h.attempt, :'event',
         :'correlation_key'::text, coalesce(:'until'::timestamptz, clock.now + :'wait'::interval),
         case when :'status' <> 'waiting' then null
              when :'since_run'::boolean then h.mark
              else pg_current_snapshot()::text end,
         :'alternatives'::jsonb, :'cursor_at'::timestamptz, :'cursor_id'::uuid,
         :'cursor_mark'::text, :'refused'::jsonb, :'family_id'::uuid, :'children'::int,
         :'children_at_once'::int,
         case when :'since_run'::boolean then h.created_at
              else clock.now - :'took'::interval end,
         case when :'status' in ('done', 'timed_out', 'failed') then clock.now end
    from held h, clock
  on conflict (job_id, name) do update
     set status = excluded.status, output = excluded.output, finished_at = excluded.finished_at,
         claim = case when excluded.finished_at is null then s.claim else excluded.claim end,
         attempt = case when excluded.finished_at is null then s.attempt else excluded.attempt end,
         cursor_at = coalesce(excluded.cursor_at, s.cursor_at),
         cursor_id = coalesce(excluded.cursor_id, s.cursor_id),
         cursor_mark = case when excluded.cursor_at is null then s.cursor_mark
                            else excluded.cursor_mark end,
         refused = case when excluded.cursor_at is null then s.refused else excluded.refused end
   where s.finished_at is null
     and (excluded.finished_at is not null
          or (s.status = 'waiting' and excluded.status = 'waiting'
              and excluded.cursor_at is not null))
  returning :step_columns
), begun as (
  insert into x_job_waits (job_id, step, place, event, correlation_key)
  select p.job_id, p.name, f.place, f.filter ->> 0, f.filter ->> 1
    from put p
   cross join jsonb_array_elements(p.alternatives::jsonb)
         with ordinality as f (filter, place)
   where p.status = 'waiting'
  on conflict do nothing
), ended as (
  delete from x_job_waits w
   using put p
   where p.alternatives is not null and p.finished_at is not null
     and w.job_id = p.job_id and w.step = p.name
)
select :step_columns
  from put s
union all
select :step_columns
  from x_job_steps s
  join held h on h.id = s.job_id
 where s.name = :'name' and not exists (select from put);
