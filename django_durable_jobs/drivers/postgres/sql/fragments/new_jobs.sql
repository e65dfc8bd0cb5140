-- Jobs, one row per element of the arrays.
with clock as materialized (
  select statement_timestamp() + :'shift'::interval as now, :own_mark as mark
), due as (
  select g.id, g.name, g.queue, g.priority, g.tenant_id, g.concurrency_key, g.idempotency_key,
         g.max_attempts, g.input, g.input_preview, g.enqueued_by, g.trace_parent, g.origin,
         g.origin_id, g.parent_id, g.parent_step, g.family_id, g.code_version, g.place, clock.now,
         clock.mark,
         case when g.is_held then timestamptz '9999-12-31 00:00:00+00'
              else coalesce(g.run_at, clock.now + g.delay, clock.now) end as due_at
    from unnest(
           :'ids'::uuid[], :'names'::text[], :'queues'::text[], :'priorities'::smallint[],
           :'tenant_ids'::text[], :'concurrency_keys'::text[], :'idempotency_keys'::text[],
           :'delays'::interval[], :'run_ats'::timestamptz[], :'max_attempts'::int[],
           :'inputs'::jsonb[], :'input_previews'::text[], :'enqueued_bys'::text[],
           :'trace_parents'::text[], :'origins'::text[], :'origin_ids'::text[],
           :'parent_ids'::uuid[], :'parent_steps'::text[], :'family_ids'::uuid[],
           :'are_held'::boolean[], :'code_versions'::text[])
         with ordinality as g (
           id, name, queue, priority, tenant_id, concurrency_key, idempotency_key, delay, run_at,
           max_attempts, input, input_preview, enqueued_by, trace_parent, origin, origin_id,
           parent_id, parent_step, family_id, is_held, code_version, place), clock
)
insert into x_jobs (
         id, name, queue, state, priority, tenant_id, concurrency_key, idempotency_key, run_at,
         is_armed, max_attempts, input, input_preview, enqueued_by, trace_parent, origin,
         origin_id, parent_id, parent_step, family_id, code_version, mark, created_at)
select id, name, queue, case when due_at > now then 'delayed' else 'ready' end, priority,
       tenant_id, concurrency_key, idempotency_key, due_at, due_at <= now, max_attempts, input,
       input_preview, enqueued_by, trace_parent, origin, origin_id, parent_id, parent_step, family_id,
       code_version, mark, now
  from due
 order by place
