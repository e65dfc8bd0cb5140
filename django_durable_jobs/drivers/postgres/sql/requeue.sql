-- Move a finished job to ready, due now; its claim number stays, and so do its steps. Its open
-- waits are taken up again, whether they were set aside or are being at this moment: a row that
-- changes under this statement is written as it is then.
--
-- With :from_step, that step and those reached after it are taken back, with their open waits:
-- copies of them stay with the attempt of the job's last claim. The job moves only if it has stored
-- the step, and nothing is deleted unless it moves. A job that was claimed between the snapshot and
-- the lock of this statement does not move either: of its newest steps nothing would be seen here.
--
-- Locks: the row; may meet a live holder of its key. Then its steps, waits and last attempt, which
--   nobody else writes while its row is locked.
-- Index: primary keys.
-- Bound: one job and its steps.
\set job_columns `cat fragments/job_columns.sql`
with seen as materialized (
  select j.id, j.claims
    from x_jobs j
   where j.id = :'job_id'::uuid
), finished as (
  select j.id, j.claims, j.attempt, j.worker_id, j.started_at
    from x_jobs j
    join seen on seen.id = j.id and seen.claims = j.claims
   where j.state in ('done', 'failed', 'dead', 'cancelled')
     for no key update of j
), first as materialized (
  select s.seq
    from x_job_steps s
   where s.job_id = :'job_id'::uuid and s.name = :'from_step'::text
), moved as (
  update x_jobs j
     set state = 'ready', attempt = 0, run_at = statement_timestamp() + :'shift'::interval,
         is_armed = true, finished_at = null, result = null, last_error = '', error_code = '',
         error_class = '', error_fingerprint = '', stop_reason = '', unknown_since = null,
         awaited_version = '', cancel_requested_at = null,
         generation = case when :'from_step'::text is null then j.generation
                           else j.generation + 1 end,
         max_attempts = coalesce(:'max_attempts'::int, j.max_attempts)
    from finished
   where j.id = finished.id and (:'from_step'::text is null or exists (select from first))
  returning :job_columns
), taken as (
  delete from x_job_steps s
   using moved, first
   where s.job_id = moved.id and s.seq >= first.seq
  returning s.job_id, s.name, s.seq, s.status, s.output, s.event, s.correlation_key, s.wake_at,
            s.started_at, s.finished_at, s.attempt
), waits as (
  delete from x_job_waits w
   using taken
   where w.job_id = taken.job_id and w.step = taken.name
), taken_up as (
  update x_job_steps s
     set is_set_aside = false
    from moved
   where s.job_id = moved.id and s.status = 'waiting'
     and not exists (select from first where first.seq <= s.seq)
  returning s.job_id, s.name, s.alternatives
), others as (
  insert into x_job_waits (job_id, step, place, event, correlation_key)
  select u.job_id, u.name, f.place, f.filter ->> 0, f.filter ->> 1
    from taken_up u
   cross join jsonb_array_elements(u.alternatives)
         with ordinality as f (filter, place)
  on conflict do nothing
), copies as (
  select t.job_id,
         jsonb_agg(
           jsonb_build_object(
             'name', t.name, 'seq', t.seq, 'status', t.status, 'output', t.output,
             'event', t.event, 'key', t.correlation_key,
             'wake_at', to_char(t.wake_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
             'started_at',
             to_char(t.started_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
             'finished_at',
             to_char(t.finished_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
             'attempt', t.attempt)
           order by t.seq, t.started_at, t.name) as steps
    from taken t
   group by t.job_id
), history as (
  insert into x_job_attempts (
           job_id, claim, attempt, outcome, worker_id, steps, started_at, finished_at)
  select f.id, f.claims, f.attempt, 'requeued', coalesce(f.worker_id, ''), c.steps, f.started_at,
         statement_timestamp() + :'shift'::interval
    from copies c
    join finished f on f.id = c.job_id
  on conflict (job_id, claim) do update
     set steps = coalesce(x_job_attempts.steps, '[]'::jsonb) || excluded.steps
)
select :job_columns
  from moved j;
