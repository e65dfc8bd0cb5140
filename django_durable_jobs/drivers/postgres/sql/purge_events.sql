-- Delete events that have expired, oldest first; no wait can take one any more.
--
-- Locks: the deleted rows, SKIP LOCKED: supervisors that purge at once take different ones.
-- Index: x_job_events_expiry_idx, then primary key.
-- Bound: :limit rows.
with expired as (
  select e.id
    from x_job_events e
   where e.expires_at <= statement_timestamp() + :'shift'::interval
   order by e.expires_at
   limit :'limit'::int
     for update skip locked
)
delete from x_job_events e
 where e.id = any (array(select expired.id from expired))
returning e.id;
