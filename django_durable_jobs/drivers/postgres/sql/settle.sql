-- End attempts, one fenced transition for each element of the arrays.
--
-- Only rows that are still running under the given claim and worker move. An attempt that did not
-- end well is added to the job's history in the same statement. A row that somebody else has
-- locked, such as a transaction that cancels the job, is left as it is and answered as locked: the
-- outcomes of all the others do not wait for it.
--
-- When one of them is a child that ends, all are left as they are, which the answer says: ask
-- settle_children, which is as much longer to plan as this takes for a job.
--
-- Locks: the held rows in id order, SKIP LOCKED.
-- Index: primary keys.
-- Bound: the arrays given.
\set end_attempts `cat fragments/end_attempts.sql`
:end_attempts
select g.id, g.claim, settled.id is not null as has_landed,
       settled.id is null and exists (
         select from x_jobs j
          where j.id = g.id and j.claims = g.claim and j.worker_id = g.worker_id
            and j.state = 'running') as is_locked,
       exists (select from held where held.ends_child) as has_children
  from given g
  left join settled on settled.id = g.id and settled.claims = g.claim;
