-- Resume a paused queue.
--
-- Locks: the pause's row.
-- Index: primary key.
-- Bound: one row.
delete from x_job_pauses p where p.kind = 'queue' and p.name = :'queue'
returning p.name;
