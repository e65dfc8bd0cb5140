"""What outlives one call: cancelling an attempt, stopping a worker, work done at intervals."""
