-- Find the live jobs that hold the given keys.
--
-- Locks: none.
-- Index: x_jobs_live_key, one seek per key.
-- Bound: the arrays given; at most one live job holds a key.
select g.place, j.id, j.state, j.queue,
       extract(epoch from j.run_at - (statement_timestamp() + :'shift'::interval))::float8
  from unnest(:'names'::text[], :'tenant_ids'::text[], :'idempotency_keys'::text[])
       with ordinality as g (name, tenant_id, idempotency_key, place)
  join x_jobs j
    on j.name = g.name and j.tenant_id = g.tenant_id and j.idempotency_key = g.idempotency_key
   and j.idempotency_key is not null
   and j.state in ('ready', 'delayed', 'running', 'suspended');
