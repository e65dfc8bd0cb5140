-- Store an event in the caller's transaction.
--
-- Locks: the new row.
-- Index: none read.
-- Bound: one row.
insert into x_job_events (
         id, name, payload, correlation_key, job_id, published_at, expires_at, xact)
values (:'id'::uuid, :'name', :'payload'::jsonb, :'key'::text, :'to'::uuid,
        date_trunc('milliseconds', statement_timestamp() + :'shift'::interval),
        statement_timestamp() + :'shift'::interval + :'ttl'::interval,
        pg_current_xact_id());
