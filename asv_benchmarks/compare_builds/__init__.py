"""What a change costs: both builds do the work of the same benchmarks, in turn, by CPU time."""
