-- Make parked jobs due whose open wait has a matching event, though nobody woke them.
--
-- The last resort, asked for a few times an hour: a publisher that died between its commit and its
-- look after that may have left a job which parked meanwhile.
--
-- Locks: the woken rows in id order, SKIP LOCKED.
-- Index: x_job_steps_waiting_idx and x_job_events_lookup_idx, then primary key.
-- Bound: :limit rows moved; reads the open waits and the live events of their names.
with answered as (
  select distinct s.job_id
    from x_job_steps s
    join x_job_events e
      on e.name = s.event
     and (s.correlation_key is null or s.correlation_key = e.correlation_key)
     and e.expires_at > statement_timestamp() + :'shift'::interval
     and case
           when e.xact is null or s.mark is null
             or pg_snapshot_xmax(s.mark::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())
           then e.published_at >= date_trunc('milliseconds', s.started_at)
           else not pg_visible_in_snapshot(e.xact, s.mark::pg_snapshot)
         end
   where s.status = 'waiting'
), held as (
  select j.id
    from x_jobs j
   where j.id in (select a.job_id from answered a) and j.state = 'suspended' and not j.is_armed
   order by j.id
   limit :'limit'::int
     for no key update of j skip locked
)
update x_jobs j
   set run_at = statement_timestamp() + :'shift'::interval, is_armed = true
 where j.id = any (array(select held.id from held))
returning j.queue;
