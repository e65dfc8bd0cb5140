-- Delete a job that is not running, with its steps, waits and attempts.
--
-- A live child that goes is an end to its parent like any other.
--
-- Locks: the row and what belongs to it; then held siblings and the parent, each SKIP LOCKED.
-- Index: primary keys; x_jobs_live_children_idx and x_jobs_held_children_idx.
-- Bound: one job, one held sibling, one parent.
\set end_children `cat fragments/end_children.sql`
with gone as (
  delete from x_jobs j
   where j.id = :'job_id'::uuid and j.state <> 'running'
  returning j.id, j.state, j.run_at, j.family_id, j.parent_id, j.parent_step
), steps as (
  delete from x_job_steps s using gone where s.job_id = gone.id
), waits as (
  delete from x_job_waits w using gone where w.job_id = gone.id
), attempts as (
  delete from x_job_attempts a using gone where a.job_id = gone.id
), ended as (
  select g.id, g.family_id, g.parent_id, g.parent_step,
         g.state = 'delayed' and g.run_at = timestamptz '9999-12-31 00:00:00+00' as was_held
    from gone g
   where g.family_id is not null and g.state in ('ready', 'delayed', 'suspended')
), :end_children
select gone.id, ended.parent_id, ended.parent_step, array(select woken.queue from woken)
  from gone
  left join ended on ended.id = gone.id;
