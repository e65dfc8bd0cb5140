-- Find jobs by their ids: children that an earlier try of their parent inserted.
--
-- Locks: none.
-- Index: primary key.
-- Bound: the array given.
select j.id, j.state, j.queue,
       extract(epoch from j.run_at - (statement_timestamp() + :'shift'::interval))::float8
  from x_jobs j
 where j.id = any (:'ids'::uuid[]);
