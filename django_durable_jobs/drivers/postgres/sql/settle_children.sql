-- End attempts, some of them of children: settle, and what the end of a child moves.
--
-- Held siblings of those that ended, and parents of which no child is left, are made due.
--
-- Locks: the held rows in id order, then held siblings and parents in id order; SKIP LOCKED.
-- Index: primary keys; x_jobs_live_children_idx, x_jobs_held_children_idx and
--        x_job_steps_calling_idx.
-- Bound: the arrays given, and so many siblings and parents.
\set end_attempts `cat fragments/end_attempts.sql`
\set end_children `cat fragments/end_children.sql`
:end_attempts, ended as (
  select t.id, t.family_id, t.parent_id, t.parent_step, false as was_held
    from settled t
   where t.family_id is not null and t.state in ('done', 'dead', 'failed')
), :end_children
select g.id, g.claim, settled.id is not null as has_landed,
       settled.id is null and exists (
         select from x_jobs j
          where j.id = g.id and j.claims = g.claim and j.worker_id = g.worker_id
            and j.state = 'running') as is_locked,
       ended.parent_id, ended.parent_step, array(select woken.queue from woken)
  from given g
  left join settled on settled.id = g.id and settled.claims = g.claim
  left join ended on ended.id = settled.id;
