-- Extend the leases of claims that are still held, and record the workers' signs of life.
--
-- A row somebody else has locked is skipped and renewed at the next tick. The lease stands in no
-- index, so the new version stays on its page.
--
-- Locks: the held rows in id order, FOR NO KEY UPDATE SKIP LOCKED; the workers' own rows.
-- Index: primary keys.
-- Bound: the arrays given.
with clock as materialized (
  select statement_timestamp() + :'shift'::interval as now
), beats as (
  insert into x_job_workers as w (
           worker_id, host, pid, queues, slots, version, started_at, seen_at, expires_at)
  select b.worker_id, b.host, b.pid, to_jsonb(string_to_array(b.queues, E'\x1f')), b.slots,
         b.version, clock.now, clock.now, clock.now + :'lease'::interval
    from unnest(
           :'worker_ids'::text[], :'hosts'::text[], :'pids'::bigint[], :'worker_queues'::text[],
           :'slots'::int[], :'versions'::text[])
         as b (worker_id, host, pid, queues, slots, version), clock
   order by b.worker_id
  on conflict (worker_id) do update
     set seen_at = excluded.seen_at, expires_at = excluded.expires_at, queues = excluded.queues,
         slots = excluded.slots
), given as (
  select g.id, g.claim, g.worker_id
    from unnest(:'ids'::uuid[], :'claims'::bigint[], :'claim_workers'::text[])
         as g (id, claim, worker_id)
), held as (
  select j.id
    from x_jobs j
    join given g on g.id = j.id and g.claim = j.claims and g.worker_id = j.worker_id
   where j.state = 'running'
   order by j.id
     for no key update of j skip locked
), renewed as (
  update x_jobs j
     set lease_expires_at = clock.now + :'lease'::interval
    from clock
   where j.id = any (array(select held.id from held))
  returning j.id
)
select g.id, g.claim, g.worker_id,
       renewed.id is not null as is_held,
       not exists (
         select from x_jobs j
          where j.id = g.id and j.claims = g.claim and j.worker_id = g.worker_id
            and j.state = 'running') as is_lost
  from given g
  left join renewed on renewed.id = g.id;
