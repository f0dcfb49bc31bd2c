"""The benchmarks of the paper's tables: UEval, CoMM, WISE, RISE, on their data as published.

Experimental: no full-size model has been scored with them yet, on miniatures of the data alone. Names and
results may change without notice until one benchmark has been run on its real data.
"""
