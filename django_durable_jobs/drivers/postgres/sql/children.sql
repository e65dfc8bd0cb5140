-- Read what became of the children of one step, in their order.
--
-- Locks: none.
-- Index: primary key, one range: the ids of a family have no gap.
-- Bound: the children of one step.
select j.id, j.name, j.state, j.result::text, j.error_code, j.error_class,
       case when j.state = 'cancelled' then j.stop_reason else j.last_error end
  from x_jobs j
 where j.id between :'first'::uuid and :'last'::uuid and j.family_id = :'first'::uuid
 order by j.id;
