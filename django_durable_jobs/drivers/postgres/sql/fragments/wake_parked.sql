-- Makes the parked jobs due that the statement has found, as
--   found (job_id)
-- and answers the queue of each; for each that somebody has locked, a row with no queue.
--
-- Locks: the woken rows in id order, SKIP LOCKED.
held as (
  select j.id
    from x_jobs j
   where j.id = any (array(select found.job_id from found))
     and j.state = 'suspended' and not j.is_armed
   order by j.id
     for no key update of j skip locked
), woken as (
  update x_jobs j
     set run_at = statement_timestamp() + :'shift'::interval, is_armed = true
   where j.id = any (array(select held.id from held))
  returning j.queue
)
select woken.queue
  from woken
union all
select null
  from x_jobs j
 where j.id = any (array(select found.job_id from found))
   and j.state = 'suspended' and not j.is_armed
   and not exists (select from held where held.id = j.id)
