-- Make those of the given parked jobs due whose open wait has a matching event.
--
-- The look after the park: an event committed between a wait's last look and the commit of its
-- park was seen by neither.
--
-- Locks: the woken rows in id order.
-- Index: primary keys of x_job_steps and x_jobs; the events as in find_event.
-- Bound: the array given.
\set wait_filters `cat fragments/wait_filters.sql`
\set fitting_events `cat fragments/fitting_events.sql`
\set event_ends_wait `cat fragments/event_ends_wait.sql`
with held as (
  select j.id
    from x_jobs j
   where j.id = any (:'ids'::uuid[]) and j.state = 'suspended' and not j.is_armed
     and exists (
           select
             from x_job_steps s
            cross join lateral :wait_filters f
            cross join lateral :fitting_events e
            where s.job_id = j.id and s.status = 'waiting' and :event_ends_wait)
   order by j.id
     for no key update of j
)
update x_jobs j
   set run_at = statement_timestamp() + :'shift'::interval, is_armed = true
 where j.id = any (array(select held.id from held))
returning j.queue;
