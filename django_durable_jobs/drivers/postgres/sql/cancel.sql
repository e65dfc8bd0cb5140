-- Move a live job to cancelled, and answer the state it was in.
--
-- A running body learns of it at its next fenced write or renewal; nothing it does lands.
--
-- Locks: the row.
-- Index: primary key.
-- Bound: one row.
with live as (
  select j.id, j.state
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
  returning j.id
)
select live.state from live join cancelled on cancelled.id = live.id;
