-- Move a finished job to ready, due now; its claim number and its steps stay.
--
-- Locks: the row; may meet a live holder of its key.
-- Index: primary key.
-- Bound: one row.
\set job_columns `cat fragments/job_columns.sql`
update x_jobs j
   set state = 'ready', attempt = 0, run_at = statement_timestamp() + :'shift'::interval,
       is_armed = true, finished_at = null, result = null, last_error = '', error_code = '',
       error_class = '', error_fingerprint = '', stop_reason = '', unknown_since = null,
       cancel_requested_at = null,
       max_attempts = coalesce(:'max_attempts'::int, j.max_attempts)
 where j.id = :'job_id'::uuid and j.state in ('done', 'failed', 'dead', 'cancelled')
returning :job_columns;
