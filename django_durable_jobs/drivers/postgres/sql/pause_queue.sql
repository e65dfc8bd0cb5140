-- Pause a queue; every worker's next claim sees it.
--
-- Locks: the pause's row.
-- Index: primary key.
-- Bound: one row.
insert into x_job_pauses (kind, name, paused_at, paused_by, reason)
values ('queue', :'queue', statement_timestamp() + :'shift'::interval, :'by', :'reason')
on conflict (kind, name) do nothing;
