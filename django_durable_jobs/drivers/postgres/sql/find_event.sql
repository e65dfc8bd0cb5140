-- Find the oldest live event that a wait may take, and the snapshot in which it was found.
--
-- Locks: none.
-- Index: x_job_events_key_idx; x_job_events_address_idx; x_job_events_xact_idx for a wait without
-- a key.
-- Bound: one row; reads the live events of the wait's keys, or, without one, those of its name
-- published since it began.
\set fitting_events `cat fragments/fitting_events.sql`
\set event_ends_wait `cat fragments/event_ends_wait.sql`
select e.id, e.name, e.correlation_key, e.payload::text, e.published_at, e.job_id,
       pg_current_snapshot()::text
  -- As text only of the one: those that are sorted out may be many, and large.
  from (select e.id, e.name, e.correlation_key, e.payload, e.published_at, e.job_id
          from (select :'job_id'::uuid as job_id, :'mark'::text as mark,
                       :'since'::timestamptz as started_at, :'cursor_at'::timestamptz as cursor_at,
                       :'cursor_id'::uuid as cursor_id, :'cursor_mark'::text as cursor_mark,
                       :'refused'::jsonb as refused) s
         cross join unnest(:'names'::text[], :'keys'::text[]) as f (event, correlation_key)
         cross join lateral :fitting_events e
         where :event_ends_wait
         order by e.published_at, e.id
         limit 1) e;
