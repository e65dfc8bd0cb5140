-- Make a waiting job due now.
--
-- Locks: the row.
-- Index: primary key.
-- Bound: one row.
update x_jobs j
   set state = 'ready', is_armed = true, run_at = statement_timestamp() + :'shift'::interval
 where j.id = :'job_id'::uuid
   and (j.state = 'delayed'
        or (j.state = 'ready' and j.run_at > statement_timestamp() + :'shift'::interval))
returning j.id, j.name, j.queue, j.state, j.priority, j.tenant_id, j.idempotency_key, j.concurrency_key,
          j.input::text, j.result::text, j.progress::text, j.attempt, j.max_attempts, j.claims,
          j.worker_id, j.lease_expires_at, j.run_at, j.last_error, j.error_code, j.stop_reason,
          j.enqueued_by, j.trace_parent, j.created_at, j.started_at, j.finished_at, j.is_armed;
