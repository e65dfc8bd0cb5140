-- Move a live job to cancelled, and answer the state it was in.
--
-- A running body learns of it at its next fenced write or renewal; nothing it does lands.
--
-- Locks: the row; then held siblings and the parent, each SKIP LOCKED.
-- Index: primary key; x_jobs_live_children_idx and x_jobs_held_children_idx.
-- Bound: one job, one held sibling, one parent.
\set end_children `cat fragments/end_children.sql`
with live as (
  select j.id, j.state, j.run_at
    from x_jobs j
   where j.id = :'job_id'::uuid and j.state in ('ready', 'delayed', 'running', 'suspended')
     for no key update
), cancelled as (
  update x_jobs j
     set state = 'cancelled', is_armed = false, lease_expires_at = null,
         stop_reason = :'reason',
         cancel_requested_at = statement_timestamp() + :'shift'::interval,
         finished_at = statement_timestamp() + :'shift'::interval
    from live
   where j.id = live.id
  returning j.id, j.family_id, j.parent_id, j.parent_step
), ended as (
  select c.id, c.family_id, c.parent_id, c.parent_step,
         live.state = 'delayed'
           and live.run_at = timestamptz '9999-12-31 00:00:00+00' as was_held
    from cancelled c
    join live on live.id = c.id
   where c.family_id is not null
), :end_children
select live.state, ended.parent_id, ended.parent_step, array(select woken.queue from woken)
  from live
  join cancelled on cancelled.id = live.id
  left join ended on ended.id = live.id;
