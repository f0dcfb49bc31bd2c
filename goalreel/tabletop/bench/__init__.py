"""TabletopBench: agents scored by the simulator's predicates. See docs/tabletop_bench.md."""
