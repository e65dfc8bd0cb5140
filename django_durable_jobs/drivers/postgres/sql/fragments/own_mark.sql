-- The snapshot of this statement, in which what this transaction wrote itself counts as later:
-- a transaction's own id stands in no snapshot of its own, and would pass for committed.
(select case when own.xid >= pg_snapshot_xmax(s.snapshot) then s.snapshot::text
             else pg_snapshot_xmin(s.snapshot)::text || ':' || pg_snapshot_xmax(s.snapshot)::text
                  || ':' || (select string_agg(r.xid::text, ',' order by r.xid)
                               from (select x as xid from pg_snapshot_xip(s.snapshot) as x
                                      union select own.xid) as r) end
   from (select pg_current_snapshot() as snapshot) as s,
        (select pg_current_xact_id() as xid) as own)
