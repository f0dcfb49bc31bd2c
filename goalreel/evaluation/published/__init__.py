"""The benchmarks of the paper's tables: UEval, CoMM, WISE, RISE, on their data as published."""
