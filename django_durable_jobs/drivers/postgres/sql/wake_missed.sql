-- Make parked jobs due whose open wait has a matching event, though nobody woke them.
--
-- The last resort, asked for a few times an hour: a publisher that died between its commit and its
-- look after that may have left a job which parked meanwhile.
--
-- Locks: the woken rows in id order, SKIP LOCKED.
-- Index: x_job_steps_waiting_idx and the events as in find_event, then primary key.
-- Bound: :limit rows moved; one look for each filter of each open wait.
\set wait_filters `cat fragments/wait_filters.sql`
\set fitting_events `cat fragments/fitting_events.sql`
\set event_ends_wait `cat fragments/event_ends_wait.sql`
with held as (
  select j.id
    from x_jobs j
   where j.id = any (array(
           select s.job_id
             from x_job_steps s
            where s.status = 'waiting' and not s.is_set_aside
              and exists (
                    select
                      from :wait_filters f
                     cross join lateral :fitting_events e
                     where :event_ends_wait)))
     and j.state = 'suspended' and not j.is_armed
   order by j.id
   limit :'limit'::int
     for no key update of j skip locked
)
update x_jobs j
   set run_at = statement_timestamp() + :'shift'::interval, is_armed = true
 where j.id = any (array(select held.id from held))
returning j.queue;
