-- Make those of the given parked jobs due of which a given step, or any where the step is null, has
-- no live child left.
--
-- The look after the commit that ended a child, and after the park of a parent: two that ended at
-- one moment each saw the other as live, and a child that ended while its parent parked saw it
-- running. A locked row is passed over, which the answer says, with no queue: whoever has it may
-- roll back, or have locked it in passing for a change that it is past by now.
--
-- A step that the body reaches no more, since its code was changed, stays open for ever; it must
-- not wake the run each time that it parks in another one.
--
-- Locks: the woken rows in id order, SKIP LOCKED.
-- Index: primary keys; x_jobs_live_children_idx.
-- Bound: the array given.
\set wake_parked `cat fragments/wake_parked.sql`
\set calls_nobody `cat fragments/calls_nobody.sql`
with found as materialized (
  select s.job_id
    from unnest(:'ids'::uuid[], :'steps'::text[]) as g (id, step)
    join x_job_steps s on s.job_id = g.id and (g.step is null or s.name = g.step)
   where :calls_nobody
),
:wake_parked;
