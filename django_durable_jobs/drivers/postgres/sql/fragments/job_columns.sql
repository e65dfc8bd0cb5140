-- The columns of a whole job, for people.
j.id, j.name, j.queue, j.state, j.priority, j.tenant_id, j.idempotency_key, j.concurrency_key,
j.input::text, j.result::text, j.progress::text, j.attempt, j.max_attempts, j.claims, j.worker_id,
j.lease_expires_at, j.run_at, j.last_error, j.error_code, j.stop_reason, j.enqueued_by,
j.trace_parent, j.created_at, j.started_at, j.finished_at, j.is_armed, j.parent_id, j.parent_step,
j.code_version, j.awaited_version, j.replay_warning, j.generation
