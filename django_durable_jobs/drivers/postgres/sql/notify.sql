-- Tell listening workers that queues got work.
--
-- One channel whatever the queue, since a channel's name ends at 63 bytes.
--
-- Locks: the notification queue, at commit: never run inside the user's transaction.
-- Index: none.
-- Bound: the array given.
select pg_notify(:'channel', payload) from unnest(:'payloads'::text[]) as payload;
