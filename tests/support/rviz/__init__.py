"""RViz's rules for markers and a software view of them, for tests: RViz itself needs a display."""
