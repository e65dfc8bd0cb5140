-- Make those of the given parked jobs due of which a step has no live child left.
--
-- The look after the commit that ended a child, and after the park of a parent: two that ended at
-- one moment each saw the other as live, and a child that ended while its parent parked saw it
-- running. A locked row is passed over: whoever has it looks for itself behind its own commit.
--
-- Locks: the woken rows in id order, SKIP LOCKED.
-- Index: primary key; x_job_steps_calling_idx; x_jobs_live_children_idx.
-- Bound: the array given.
\set calls_nobody `cat fragments/calls_nobody.sql`
with held as (
  select j.id
    from x_jobs j
   where j.id = any (:'ids'::uuid[]) and j.state = 'suspended' and not j.is_armed
     and exists (select from x_job_steps s where s.job_id = j.id and :calls_nobody)
   order by j.id
     for no key update of j skip locked
)
update x_jobs j
   set run_at = statement_timestamp() + :'shift'::interval, is_armed = true
 where j.id = any (array(select held.id from held))
returning j.queue;
