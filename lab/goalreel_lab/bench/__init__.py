"""TabletopBench: agents scored by the simulator's predicates. See lab/docs/tabletop-bench.md."""
