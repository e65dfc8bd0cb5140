-- Make parked jobs due whose children all ended, though nobody woke them; and start held children
-- where fewer run than the step allows, and nobody is left whose end would start them.
--
-- The last resort, asked for a few times an hour: a worker that died between its commit and its
-- look after that, or a row that was passed over for a transaction which then rolled back.
--
-- Locks: the woken rows, parents before children, each in id order, SKIP LOCKED.
-- Index: x_job_steps_calling_idx, x_jobs_live_children_idx and x_jobs_held_children_idx, then
--        primary key.
-- Bound: :limit rows moved; reads the open calls and their live children.
\set calls_nobody `cat fragments/calls_nobody.sql`
with parents as materialized (
  select j.id
    from x_jobs j
   where j.id in (select s.job_id from x_job_steps s where :calls_nobody)
     and j.state = 'suspended' and not j.is_armed
   order by j.id
   limit :'limit'::int
     for no key update of j skip locked
), starved as materialized (
  select s.family_id, s.children_at_once - running.jobs as places
    from x_job_steps s
   cross join lateral (
         select count(*) filter (
                  where j.run_at < timestamptz '9999-12-31 00:00:00+00'
                     or j.state <> 'delayed') as jobs
           from x_jobs j
          where j.family_id = s.family_id
            and j.state in ('ready', 'delayed', 'running', 'suspended')) as running
   where s.status = 'calling' and s.children_at_once > running.jobs
   order by s.family_id
), following as materialized (
  select sibling.id
    from starved
   cross join lateral (
         select j.id
           from x_jobs j
          where j.family_id = starved.family_id and j.state = 'delayed'
            and j.run_at = timestamptz '9999-12-31 00:00:00+00'
          order by j.id
          limit starved.places
            for no key update skip locked) as sibling
   limit :'limit'::int - (select count(*) from parents)
)
update x_jobs j
   set run_at = statement_timestamp() + :'shift'::interval, is_armed = true
 where j.id = any (array(select parents.id from parents union all
                         select following.id from following))
returning j.queue;
