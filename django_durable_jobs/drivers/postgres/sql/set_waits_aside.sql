-- Set open waits of finished jobs aside, so that publishers do not read them.
--
-- A job that ends pays nothing for what it leaves open; this is asked for a few times an hour. A
-- requeue takes the waits up again, from the same instants and snapshots. It cannot come between:
-- the job is locked, and looked at again once it is.
--
-- Locks: the jobs, SKIP LOCKED; then their waits, which nobody else writes meanwhile.
-- Index: x_job_steps_waiting_idx, then primary keys.
-- Bound: :limit waits moved; reads the open ones.
with left_open as (
  select s.job_id, s.name
    from x_job_steps s
    join x_jobs j on j.id = s.job_id
   where s.status = 'waiting' and not s.is_set_aside
     and j.state in ('done', 'failed', 'dead', 'cancelled')
   limit :'limit'::int
     for no key update of j skip locked
), set_aside as (
  update x_job_steps s
     set is_set_aside = true
    from left_open l
   where s.job_id = l.job_id and s.name = l.name
  returning s.job_id, s.name
), others as (
  delete from x_job_waits w
   using set_aside a
   where w.job_id = a.job_id and w.step = a.name
)
select count(*) from set_aside;
