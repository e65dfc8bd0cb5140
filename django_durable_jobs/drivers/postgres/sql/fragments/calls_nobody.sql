-- That step s waits for children of which none is left.
s.status = 'calling'
and not exists (
      select from x_jobs c
       where c.family_id = s.family_id
         and c.state in ('ready', 'delayed', 'running', 'suspended'))
