-- Insert the children of a job; those that an earlier try of it inserted stay as they are.
--
-- Their ids say whose they are and in which place, so a child that is there is this very child.
--
-- Locks: the new rows; waits for another open transaction that inserts the same children.
-- Index: primary key and x_jobs_live_key decide conflicts; what meets one is left out of the answer.
-- Bound: the arrays given.
\set new_jobs `cat fragments/new_jobs.sql`
\set own_mark `cat fragments/own_mark.sql`
:new_jobs
on conflict do nothing
returning id, state, queue,
          extract(epoch from run_at - (statement_timestamp() + :'shift'::interval))::float8;
