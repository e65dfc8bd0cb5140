-- Move a finished job to ready, due now; its claim number and its steps stay.
--
-- Locks: the row; may meet a live holder of its key.
-- Index: primary key.
-- Bound: one row.
update x_jobs j
   set state = 'ready', attempt = 0, run_at = statement_timestamp() + :'shift'::interval,
       is_armed = true, finished_at = null, result = null, last_error = '', error_code = '',
       error_class = '', error_fingerprint = '', stop_reason = '', unknown_since = null,
       cancel_requested_at = null,
       max_attempts = coalesce(:'max_attempts'::int, j.max_attempts)
 where j.id = :'job_id'::uuid and j.state in ('done', 'failed', 'dead', 'cancelled')
returning j.id, j.name, j.queue, j.state, j.priority, j.tenant_id, j.idempotency_key, j.concurrency_key,
          j.input::text, j.result::text, j.progress::text, j.attempt, j.max_attempts, j.claims,
          j.worker_id, j.lease_expires_at, j.run_at, j.last_error, j.error_code, j.stop_reason,
          j.enqueued_by, j.trace_parent, j.created_at, j.started_at, j.finished_at, j.is_armed;
