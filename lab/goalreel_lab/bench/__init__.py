"""TabletopBench: agents scored by the simulator's predicates. See docs/reference/tabletop-bench.md."""
