-- Attempts that end, one for each element of the arrays: "settled" are those whose fence held, and
-- what they were is added to the history. Where a child ends, nothing does unless :with_children.
with clock as materialized (
  select statement_timestamp() + :'shift'::interval as now
), given as (
  select g.id, g.claim, g.worker_id, g.state, g.delay, g.run_at, g.give_back, g.result,
         g.stop_reason, g.unknown_name, g.error_code, g.error_class, g.message, g.traceback,
         g.fingerprint, g.code_version, g.awaited_version, g.replay_warning
    from unnest(
           :'ids'::uuid[], :'claims'::bigint[], :'claim_workers'::text[], :'states'::text[],
           :'delays'::interval[], :'run_ats'::timestamptz[], :'give_backs'::boolean[],
           :'results'::jsonb[], :'stop_reasons'::text[], :'unknown_names'::boolean[],
           :'error_codes'::text[], :'error_classes'::text[], :'messages'::text[],
           :'tracebacks'::text[], :'fingerprints'::text[], :'code_versions'::text[],
           :'awaited_versions'::text[], :'replay_warnings'::text[])
         as g (
           id, claim, worker_id, state, delay, run_at, give_back, result, stop_reason,
           unknown_name, error_code, error_class, message, traceback, fingerprint, code_version,
           awaited_version, replay_warning)
), held as (
  select j.id, j.attempt, j.started_at,
         j.family_id is not null and g.state in ('done', 'dead', 'failed') as ends_child
    from x_jobs j
    join given g on g.id = j.id and g.claim = j.claims and g.worker_id = j.worker_id
   where j.state = 'running'
   order by j.id
     for no key update of j skip locked
), due as (
  select g.id, g.claim, g.worker_id, g.state, g.give_back, g.result, g.stop_reason,
         g.unknown_name, g.error_code, g.error_class, g.message, g.traceback, g.fingerprint,
         g.code_version, g.awaited_version, g.replay_warning, h.attempt, h.started_at, clock.now,
         case when g.state not in ('ready', 'suspended') then null
              when g.run_at is not null then g.run_at
              when g.delay is not null then clock.now + g.delay
              when g.state = 'ready' then clock.now
              -- Parked without an end: only an event or a child wakes it.
              else timestamptz '9999-12-31 00:00:00+00' end as due_at
    from given g
    join held h on h.id = g.id, clock
   where :'with_children'::boolean or not exists (select from held where held.ends_child)
), settled as (
  update x_jobs j
     set state = d.state,
         is_armed = coalesce(d.due_at <= d.now, false),
         run_at = coalesce(d.due_at, j.run_at),
         attempt = case when d.give_back then greatest(j.attempt - 1, 0) else j.attempt end,
         lease_expires_at = null,
         result = d.result,
         last_error = case when d.message is not null then d.message
                           when d.state = 'done' then '' else j.last_error end,
         error_code = case when d.message is not null then d.error_code
                           when d.state = 'done' then '' else j.error_code end,
         error_class = case when d.message is not null then d.error_class
                            when d.state = 'done' then '' else j.error_class end,
         error_fingerprint = case when d.message is not null then d.fingerprint
                                  when d.state = 'done' then '' else j.error_fingerprint end,
         stop_reason = d.stop_reason,
         -- Two waits, for a name and for a version, and each begins anew after the other.
         unknown_since = case when not d.unknown_name and d.awaited_version = '' then null
                              when d.awaited_version = j.awaited_version
                                   then coalesce(j.unknown_since, d.now)
                              else d.now end,
         code_version = coalesce(d.code_version, j.code_version),
         awaited_version = d.awaited_version,
         replay_warning = coalesce(d.replay_warning, j.replay_warning),
         finished_at = case when d.due_at is null then d.now end
    from due d
   where j.id = d.id
  returning j.id, j.claims, j.state, j.family_id, j.parent_id, j.parent_step
), history as (
  insert into x_job_attempts (
           job_id, claim, attempt, outcome, error_code, error_class, message, traceback,
           error_fingerprint, worker_id, started_at, finished_at)
  select d.id, d.claim, d.attempt, d.state, d.error_code, d.error_class, d.message, d.traceback,
         d.fingerprint, d.worker_id, d.started_at, d.now
    from due d
   where d.message is not null
  on conflict (job_id, claim) do nothing
)
