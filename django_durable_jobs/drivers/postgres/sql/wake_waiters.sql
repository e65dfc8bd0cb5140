-- Make those of the given parked jobs due of which a given open wait, or any where the step is
-- null, has a matching event.
--
-- The look after the park: an event committed between a wait's last look and the commit of its
-- park was seen by neither.
--
-- A wait that the body reaches no more, since its code was changed, stays open for ever; it must
-- not wake the run each time that it parks in another one.
--
-- A locked row is passed over, which the answer says, with no queue: all outcomes of a worker would
-- wait for a publisher whose transaction is open, and that wakes the run as it commits. Whoever else
-- has it may have locked it in passing for a change that it is past by now: ask again.
--
-- Locks: the woken rows in id order, SKIP LOCKED.
-- Index: primary keys of x_job_steps and x_jobs; the events as in find_event.
-- Bound: the array given.
\set wake_parked `cat fragments/wake_parked.sql`
\set wait_filters `cat fragments/wait_filters.sql`
\set fitting_events `cat fragments/fitting_events.sql`
\set event_ends_wait `cat fragments/event_ends_wait.sql`
with found as materialized (
  select s.job_id
    from unnest(:'ids'::uuid[], :'steps'::text[]) as g (id, step)
    join x_job_steps s on s.job_id = g.id and (g.step is null or s.name = g.step)
   where s.status = 'waiting'
     and exists (
           select
             from :wait_filters f
            cross join lateral :fitting_events e
            where :event_ends_wait)
),
:wake_parked;
