-- Make the parked jobs due that wait for this event: the look after the publisher's commit.
--
-- A job that parked in between was not parked yet for the first look, and did not see the event
-- in its own last one. Nobody looks after this, so a locked row is waited for: whoever has it may
-- yet roll back. Not for longer than :patience: the publisher may be a request, and the one that has
-- the row a transaction of hours. Never run it inside a transaction that holds locks.
--
-- Locks: the woken rows in id order; the bound on waiting for them is set before the first.
-- Index: x_job_steps_waiting_idx and x_job_waits_event_idx, then primary keys. Nobody waiting
-- reads no step.
-- Bound: :limit rows; repeat while it answers that many.
\set event_waiters `cat fragments/event_waiters.sql`
\set event_ends_wait `cat fragments/event_ends_wait.sql`
with patience as materialized (
  select set_config('lock_timeout', :'patience', true)
), held as (
  select j.id
    from x_jobs j
   where j.id = any (array(:event_waiters))
     and j.state = 'suspended' and not j.is_armed
     and exists (select from patience)
   order by j.id
   limit :'limit'::int
     for no key update
)
update x_jobs j
   set run_at = statement_timestamp() + :'shift'::interval, is_armed = true
 where j.id = any (array(select held.id from held))
returning j.queue;
