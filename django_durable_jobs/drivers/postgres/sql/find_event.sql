-- Find the oldest live event that a wait may take: one that was committed after the wait began.
--
-- The wait's snapshot decides, since a stamp says when an event was written and not when it could
-- be seen. Stamps decide where there is no snapshot to compare with: for rows without a
-- transaction id, for the searcher's own transaction, and for a snapshot of another cluster.
--
-- Locks: none.
-- Index: x_job_events_lookup_idx.
-- Bound: one row; reads the live events of one name.
select e.id, e.name, e.correlation_key, e.payload::text, e.published_at
  from x_job_events e
 where e.name = :'name'
   and (:'key'::text is null or e.correlation_key = :'key'::text)
   and e.expires_at > statement_timestamp() + :'shift'::interval
   and case
         when e.xact is null
           or :'mark'::pg_snapshot is null
           or e.xact = pg_current_xact_id_if_assigned()
           or pg_snapshot_xmax(:'mark'::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())
         then e.published_at >= date_trunc('milliseconds', :'since'::timestamptz)
         else not pg_visible_in_snapshot(e.xact, :'mark'::pg_snapshot)
       end
 order by e.published_at, e.id
 limit 1;
