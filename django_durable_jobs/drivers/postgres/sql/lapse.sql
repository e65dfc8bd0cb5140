-- End the leases of a dead worker's claims now, so that the next rescue takes them.
--
-- A row somebody else has locked is skipped: nobody renews its lease, which ends by itself. The
-- caller renews the leases of other workers and must not wait for anyone's transaction.
--
-- Locks: the held rows in id order, SKIP LOCKED.
-- Index: primary key.
-- Bound: the arrays given.
with held as (
  select j.id
    from x_jobs j
    join unnest(:'ids'::uuid[], :'claims'::bigint[], :'claim_workers'::text[])
         as g (id, claim, worker_id)
      on g.id = j.id and g.claim = j.claims and g.worker_id = j.worker_id
   where j.state = 'running'
   order by j.id
     for no key update of j skip locked
)
update x_jobs j
   set lease_expires_at = statement_timestamp() + :'shift'::interval - interval '1 second'
 where j.id = any (array(select held.id from held))
returning j.id;
