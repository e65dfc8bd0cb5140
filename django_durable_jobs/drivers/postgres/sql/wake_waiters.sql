-- Make those of the given parked jobs due whose open wait has a matching event.
--
-- The look after the park: an event committed between a wait's last look and the commit of its
-- park was seen by neither.
--
-- Locks: the woken rows in id order.
-- Index: primary keys of x_job_steps and x_jobs; x_job_events_lookup_idx.
-- Bound: the array given.
with held as (
  select j.id
    from x_jobs j
   where j.id = any (:'ids'::uuid[]) and j.state = 'suspended' and not j.is_armed
     and exists (
           select
             from x_job_steps s
             join x_job_events e
               on e.name = s.event
              and (s.correlation_key is null or s.correlation_key = e.correlation_key)
              and e.expires_at > statement_timestamp() + :'shift'::interval
              and case
                    when e.xact is null or s.mark is null
                      or e.xact = pg_current_xact_id_if_assigned()
                      or pg_snapshot_xmax(s.mark::pg_snapshot)
                         > pg_snapshot_xmax(pg_current_snapshot())
                    then e.published_at >= date_trunc('milliseconds', s.started_at)
                    else not pg_visible_in_snapshot(e.xact, s.mark::pg_snapshot)
                  end
            where s.job_id = j.id and s.status = 'waiting')
   order by j.id
     for no key update of j
)
update x_jobs j
   set run_at = statement_timestamp() + :'shift'::interval, is_armed = true
 where j.id = any (array(select held.id from held))
returning j.queue;
