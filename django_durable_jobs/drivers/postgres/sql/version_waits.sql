-- Count the runs that wait for a worker with another version of their code.
--
-- One that is finished waits no more, and one that is running is being looked at.
--
-- Locks: none.
-- Index: x_jobs_version_idx.
-- Bound: the rows that wait for a version.
select j.name, j.awaited_version, count(*)
  from x_jobs j
 where j.awaited_version <> '' and j.state = 'ready'
 group by j.name, j.awaited_version
 order by j.name, j.awaited_version;
