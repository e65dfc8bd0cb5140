-- Whether event e ends wait s by its filter f.
--
-- The wait's snapshot decides, since a stamp says when an event was written and not when it could
-- be seen. Stamps decide where there is no snapshot to compare with: for rows without a
-- transaction id, for the searcher's own transaction, and for a snapshot of another cluster.
--
-- The cursor refuses what is not behind its pair in the order (published_at, id). Still owed is
-- an event in front of it that its search could not see; those refused later are known by id.
(e.name = f.event
 and (f.correlation_key is null or f.correlation_key = e.correlation_key
      or (e.correlation_key is null and e.job_id = s.job_id))
 and (e.job_id is null or e.job_id = s.job_id)
 and e.expires_at > statement_timestamp() + :'shift'::interval
 and case
       when e.xact is null or s.mark is null
         or e.xact = pg_current_xact_id_if_assigned()
         or pg_snapshot_xmax(s.mark::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())
       then e.published_at >= date_trunc('milliseconds', s.started_at)
       else not pg_visible_in_snapshot(e.xact, s.mark::pg_snapshot)
     end
 and case
       when s.cursor_at is null or (e.published_at, e.id) > (s.cursor_at, s.cursor_id) then true
       when e.id = s.cursor_id or e.xact is null or s.cursor_mark is null
         or e.xact = pg_current_xact_id_if_assigned()
         or pg_snapshot_xmax(s.cursor_mark::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())
       then false
       else not pg_visible_in_snapshot(e.xact, s.cursor_mark::pg_snapshot)
        and not coalesce(jsonb_exists(s.refused, e.id::text), false)
     end)
