-- Events that may end wait s by its filter f, each way to fit by its own index: with the key of
-- the filter, addressed to the job, or, for a filter without a key, those for any job since the
-- wait began. More than those that end it, so ask event_ends_wait of each.
(select e.id, e.name, e.correlation_key, e.payload, e.published_at, e.expires_at, e.job_id, e.xact
   from x_job_events e
  where e.name = f.event and e.correlation_key = f.correlation_key
 union all
 select e.id, e.name, e.correlation_key, e.payload, e.published_at, e.expires_at, e.job_id, e.xact
   from x_job_events e
  where e.job_id = s.job_id and e.name = f.event
    and (f.correlation_key is null or e.correlation_key is null)
 union all
 select e.id, e.name, e.correlation_key, e.payload, e.published_at, e.expires_at, e.job_id, e.xact
   from x_job_events e
  where f.correlation_key is null and e.name = f.event and e.job_id is null
    and (e.xact is null
         or e.xact >= case
                        when s.mark is null
                          or pg_snapshot_xmax(s.mark::pg_snapshot)
                             > pg_snapshot_xmax(pg_current_snapshot())
                        then xid8 '0'
                        else pg_snapshot_xmin(s.mark::pg_snapshot)
                      end))
