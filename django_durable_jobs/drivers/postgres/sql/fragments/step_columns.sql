-- The columns of a stored step.
s.name, s.seq, s.status, s.output::text, s.event, s.correlation_key, s.wake_at, s.started_at,
s.finished_at, s.mark, s.attempt, s.alternatives::text, s.cursor_at, s.cursor_id, s.cursor_mark,
s.refused::text, s.family_id, s.children, s.children_at_once, s.job_id
