-- Find the live jobs that hold the given keys.
--
-- Key by key: for a plain join the planner sorts every live key as soon as it believes that there
-- are few, as it does of a table that was never analysed.
--
-- Locks: none.
-- Index: x_jobs_live_key, one seek per key.
-- Bound: the arrays given; at most one live job holds a key.
select g.place, holder.id, holder.state, holder.queue, holder.due_in
  from unnest(:'names'::text[], :'tenant_ids'::text[], :'idempotency_keys'::text[])
       with ordinality as g (name, tenant_id, idempotency_key, place)
 cross join lateral (
       select j.id, j.state, j.queue,
              extract(epoch from
                j.run_at - (statement_timestamp() + :'shift'::interval))::float8 as due_in
         from x_jobs j
        where j.name = g.name and j.tenant_id = g.tenant_id
          and j.idempotency_key = g.idempotency_key
          and j.idempotency_key is not null
          and j.state in ('ready', 'delayed', 'running', 'suspended')
        limit 1) as holder;
