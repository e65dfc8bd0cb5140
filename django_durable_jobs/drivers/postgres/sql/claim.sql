-- Claim due jobs of several queues at once, and hold each under a lease.
--
-- A lane is (tenant, concurrency key). Within a priority the lanes take turns; a walk visits at
-- most :lanes of them and starts behind the given cursor. It goes on to a lower priority only
-- from one with a single lane, which is then empty: so no lower priority overtakes a higher one.
-- "again" says that lanes of the last priority may hold more than their turn gave.
--
-- A walk that took nothing has met only rows that somebody else has locked, perhaps for long: a
-- transaction that cancels jobs. Whatever is free behind those lanes is taken in plain order then,
-- or it would starve until that transaction ends.
--
-- Locks: the claimed rows, SKIP LOCKED: claimers neither wait for nor see one another's rows.
-- Index: x_jobs_claim_idx, a loose scan over lanes and a range in each; the update by primary key.
-- Bound: :lanes seeks for each queue, the counts asked, and :limit over all.
with clock as materialized (
  select statement_timestamp() + :'shift'::interval as now
), demand as (
  select d.queue, d.wanted, d.cursor_rank, d.cursor_tenant, d.cursor_key
    from unnest(
           :'queues'::text[], :'counts'::int[], :'cursor_ranks'::int[],
           :'cursor_tenants'::text[], :'cursor_keys'::text[])
         with ordinality as d (
           queue, wanted, cursor_rank, cursor_tenant, cursor_key, place)
   where d.wanted > 0
     and not exists (
           select from x_job_pauses p where p.kind = 'queue' and p.name = d.queue)
   order by d.place
), picked as (
  select taken.id, taken.rank, taken.tenant_id, taken.concurrency_key, taken.again,
         taken.visited
    from demand d
   cross join clock
   cross join lateral (
    with recursive lanes as (
      select start.rank, start.tenant_id, start.concurrency_key, 1 as visited, 1 as in_rank,
             start.is_inside
        from (select j.priority * -1 as rank, j.tenant_id, j.concurrency_key
                from x_jobs j
               where j.queue = d.queue and j.is_armed
               order by j.priority * -1, j.tenant_id, j.concurrency_key
               limit 1) as top
       cross join lateral (
              (select j.priority * -1 as rank, j.tenant_id, j.concurrency_key, true as is_inside
                 from x_jobs j
                where j.queue = d.queue and j.is_armed and j.priority * -1 = top.rank
                  and top.rank = d.cursor_rank
                  and (j.tenant_id, j.concurrency_key) > (d.cursor_tenant, d.cursor_key)
                order by j.tenant_id, j.concurrency_key
                limit 1)
              union all
              select top.rank, top.tenant_id, top.concurrency_key, false
              limit 1) as start
      union all
      select step.rank, step.tenant_id, step.concurrency_key, l.visited + 1,
             case when step.rank = l.rank then l.in_rank + 1 else 1 end,
             step.is_inside or (step.rank = l.rank and l.is_inside)
        from lanes l
       cross join lateral (
              select j.priority * -1 as rank, j.tenant_id, j.concurrency_key
                from x_jobs j
               where j.queue = d.queue and j.is_armed
                 and (j.priority * -1, j.tenant_id, j.concurrency_key)
                     > (l.rank, l.tenant_id, l.concurrency_key)
               order by j.priority * -1, j.tenant_id, j.concurrency_key
               limit 1) as next
       cross join lateral (
              (select j.priority * -1 as rank, j.tenant_id, j.concurrency_key, true as is_inside
                 from x_jobs j
                where j.queue = d.queue and j.is_armed and j.priority * -1 = next.rank
                  and next.rank > l.rank and next.rank = d.cursor_rank
                  and (j.tenant_id, j.concurrency_key) > (d.cursor_tenant, d.cursor_key)
                order by j.tenant_id, j.concurrency_key
                limit 1)
              union all
              select next.rank, next.tenant_id, next.concurrency_key, false
              limit 1) as step
       where l.visited < :'lanes'::int
         and (next.rank = l.rank or (l.in_rank = 1 and not l.is_inside))
    ), turns as (
      select l.rank, l.tenant_id, l.concurrency_key, l.visited,
             count(*) over (partition by l.rank) as in_rank,
             bool_or(l.is_inside) over (partition by l.rank) as is_inside
        from lanes l
    ), walked as materialized (
      select row.id, t.rank, t.tenant_id, t.concurrency_key,
             (t.in_rank > 1 or t.is_inside) as again, t.visited
        from (select turns.rank, turns.tenant_id, turns.concurrency_key, turns.visited,
                     turns.in_rank, turns.is_inside
                from turns
               order by turns.visited) as t
       cross join lateral (
              select j.id
                from x_jobs j
               where j.queue = d.queue and j.is_armed and j.priority * -1 = t.rank
                 and j.tenant_id = t.tenant_id and j.concurrency_key = t.concurrency_key
                 and j.run_at <= clock.now
               order by j.run_at, j.id
               limit (d.wanted + t.in_rank - 1) / t.in_rank
                 for update skip locked) as row
       limit d.wanted
    )
    select w.id, w.rank, w.tenant_id, w.concurrency_key, w.again, w.visited
      from walked w
    union all
    select beyond.id, beyond.rank, beyond.tenant_id, beyond.concurrency_key, false, 0
      from (select j.id, j.priority * -1 as rank, j.tenant_id, j.concurrency_key
              from x_jobs j
             where j.queue = d.queue and j.is_armed and j.run_at <= clock.now
               and not exists (select from walked)
             order by j.priority * -1, j.tenant_id, j.concurrency_key, j.run_at, j.id
             limit d.wanted
               for update skip locked) as beyond) as taken
   limit :'limit'::int
), claimed as (
  update x_jobs j
     set state = 'running',
         is_armed = false,
         attempt = j.attempt + 1,
         claims = j.claims + 1,
         worker_id = :'worker_id',
         lease_expires_at = clock.now + :'lease'::interval,
         started_at = clock.now
    from clock
   where j.id = any (array(select p.id from picked p))
  returning j.id, j.claims, j.name, j.queue, j.input::text as input, j.attempt, j.max_attempts,
            j.tenant_id, j.enqueued_by, j.trace_parent, j.created_at, clock.now as claimed_at,
            j.unknown_since, j.code_version, j.generation, j.priority, j.run_at,
            j.awaited_version
)
select c.id, c.claims, c.name, c.queue, c.input, c.attempt, c.max_attempts, c.tenant_id,
       c.enqueued_by, c.trace_parent, c.created_at, c.claimed_at, c.unknown_since,
       c.code_version, c.generation,
       p.rank, p.tenant_id, p.concurrency_key, p.again, p.visited,
       c.awaited_version
  from claimed c
  join picked p on p.id = c.id
 order by c.priority desc, c.run_at, c.id;
