-- Make the parked jobs due that wait for this event.
--
-- Run with the publish, so that a publisher which dies behind its commit has woken them. A locked
-- row is left to the look after the commit (wake_event_again): the publisher's transaction may be
-- long and hold the rows of earlier events, so waiting here would hold up one publisher behind
-- another, and deadlock two that publish the same events in turns.
--
-- Locks: the woken rows in id order, SKIP LOCKED.
-- Index: x_job_steps_waiting_idx and x_job_waits_event_idx, then primary keys. Nobody waiting
-- reads no step.
-- Bound: :limit rows; repeat while it answers that many.
\set event_waiters `cat fragments/event_waiters.sql`
\set event_ends_wait `cat fragments/event_ends_wait.sql`
with held as (
  select j.id
    from x_jobs j
   where j.id = any (array(:event_waiters))
     and j.state = 'suspended' and not j.is_armed
   order by j.id
   limit :'limit'::int
     for no key update skip locked
)
update x_jobs j
   set run_at = statement_timestamp() + :'shift'::interval, is_armed = true
 where j.id = any (array(select held.id from held))
returning j.queue;
