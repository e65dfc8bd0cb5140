-- What the end of children moves. Needs the rows that this statement ends, as
--   ended (id, family_id, parent_id, parent_step, was_held)
-- and answers in "woken" the queues that got work.
--
-- As many held siblings are made due as ended that were not held themselves: so no more run side by
-- side than began. The parent is made due when its step waits for this family and no child is left.
-- A child that another transaction is ending counts as live here, so of two last ones perhaps
-- neither wakes the parent: whoever runs this looks once more after its commit (wake_parents).
--
-- Looked up one by one, so that nothing is read where no child ended: for joins the planner would
-- sooner read the steps of all jobs. Rows are locked in id order, SKIP LOCKED.
families as materialized (
  select e.family_id, e.parent_id, e.parent_step, array_agg(e.id) as ids,
         count(*) filter (where not e.was_held) as places
    from ended e
   group by e.family_id, e.parent_id, e.parent_step
   order by e.family_id
), following as materialized (
  select sibling.id
    from families f
   cross join lateral (
         select j.id
           from x_jobs j
          where j.family_id = f.family_id and j.state = 'delayed'
            and j.run_at = timestamptz '9999-12-31 00:00:00+00'
          order by j.id
          limit f.places
            for no key update skip locked) as sibling
), complete as materialized (
  select f.parent_id
    from families f
   cross join lateral (
         select s.job_id
           from x_job_steps s
          where s.job_id = f.parent_id and s.name = f.parent_step
            and s.status = 'calling' and s.family_id = f.family_id
          limit 1) as step
    left join lateral (
         select j.id
           from x_jobs j
          where j.family_id = f.family_id
            and j.state in ('ready', 'delayed', 'running', 'suspended')
            and j.id <> all (f.ids)
          -- From the end, where those stand that start last.
          order by j.id desc
          limit 1) as sibling on true
   where sibling.id is null
), parents as materialized (
  select j.id
    from x_jobs j
   where j.id = any (array(select complete.parent_id from complete))
     and j.state = 'suspended' and not j.is_armed
   order by j.id
     for no key update skip locked
), woken as (
  update x_jobs j
     set run_at = statement_timestamp() + :'shift'::interval, is_armed = true
   where j.id = any (array(select following.id from following union all
                           select parents.id from parents))
  returning j.queue
)
