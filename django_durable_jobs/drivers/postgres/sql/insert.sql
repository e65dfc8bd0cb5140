-- Insert jobs, one row per element of the arrays, in the caller's transaction.
--
-- Locks: the new rows; waits for another open transaction that inserts the same live key.
-- Index: x_jobs_live_key decides conflicts; a row that meets a live holder is left out of the answer.
-- Bound: the arrays given.
\set new_jobs `cat fragments/new_jobs.sql`
\set own_mark `cat fragments/own_mark.sql`
:new_jobs
on conflict (name, tenant_id, idempotency_key)
      where idempotency_key is not null and state in ('ready', 'delayed', 'running', 'suspended')
      do nothing
returning id, state, queue,
          extract(epoch from run_at - (statement_timestamp() + :'shift'::interval))::float8;
