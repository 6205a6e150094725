"""The memory plane's benchmark: workloads, baselines, routing, and the rows P01 to P07 of the ledger."""
