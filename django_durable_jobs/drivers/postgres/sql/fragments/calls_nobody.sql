-- That step s waits for children of which none is left.
s.status = 'calling'
and (select c.id
       from x_jobs c
      where c.family_id = s.family_id
        and c.state in ('ready', 'delayed', 'running', 'suspended')
      -- From the end, where those stand that start last.
      order by c.id desc
      limit 1) is null
