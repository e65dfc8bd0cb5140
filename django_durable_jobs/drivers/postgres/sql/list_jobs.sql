-- Read one page of jobs, newest first; "before" pages to the nearest newer rows,
-- and answers those oldest first.
--
-- Ids grow with time, so a page is a range of the primary key, whatever its depth.
--
-- Locks: none.
-- Index: primary key; x_jobs_unhappy_idx or x_jobs_running_idx where the state has one.
-- Bound: :limit rows answered; a filter that no index serves reads on until it has found them.
\set job_columns `cat fragments/job_columns.sql`
select :job_columns
  from x_jobs j
 where (:'queue'::text is null or j.queue = :'queue'::text)
   and (:'name'::text is null or j.name = :'name'::text)
   and (:'state'::text is null or j.state = :'state'::text)
   and (:'tenant_id'::text is null or j.tenant_id = :'tenant_id'::text)
   and (:'id_from'::uuid is null or j.id >= :'id_from'::uuid)
   and (:'id_to'::uuid is null or j.id <= :'id_to'::uuid)
   and (:'created_from'::timestamptz is null or j.created_at >= :'created_from'::timestamptz)
   and (:'created_to'::timestamptz is null or j.created_at < :'created_to'::timestamptz)
   and (:'after'::uuid is null or j.id < :'after'::uuid)
   and (:'before'::uuid is null or j.id > :'before'::uuid)
 order by case when :'before'::uuid is null then j.id end desc,
          case when :'before'::uuid is not null then j.id end
 limit :'limit'::int;
