-- Put waiting jobs whose time has come into the claim index.
--
-- Locks: those rows, SKIP LOCKED.
-- Index: x_jobs_due_idx.
-- Bound: :limit rows.
with due as (
  select j.id
    from x_jobs j
   where not j.is_armed and j.state in ('ready', 'delayed', 'suspended')
     and j.run_at <= statement_timestamp() + :'shift'::interval
   order by j.run_at
   limit :'limit'::int
     for no key update skip locked
)
update x_jobs j
   set is_armed = true
 where j.id = any (array(select due.id from due))
returning j.queue;
