"""One worker process: claims jobs, runs their bodies, settles them.

::

    main thread      signals, the supervisor's messages, drain and stop
    claimer          claims for free slots, tells the supervisor, hands rows out
    slots            one thread each: Django connections, context, body
    loop             awaits the bodies that are async, for the slots that wait for them
    deadlines        cancels attempts that outlive their timeout, interrupts the deaf
    settler          lands outcomes in batches, announces those that finished a job

Rows wait only between claimer and slots, and outcomes only between slots and settler;
both are bounded. A worker that loses its supervisor stops claiming, cancels what runs
and exits. It renews no lease itself: a body that holds the interpreter's lock in C code
would keep it from doing so, so the supervisor does it.

- The process is killed: its supervisor ends its leases at once; otherwise they lapse.
  Another worker takes the jobs again, with one more attempt counted.
- The lease is lost (cancelled, or taken by another): the attempt's signal is set, and no
  fenced write of it lands.
- The database is away: claims and settles are tried again with growing pauses; a settle
  that comes too late for its lease changes nothing.
"""
