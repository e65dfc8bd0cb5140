-- Drop the registry rows of workers that stopped.
--
-- Locks: those rows.
-- Index: primary key.
-- Bound: the array given.
delete from x_job_workers w where w.worker_id = any (:'worker_ids'::text[]);
