"""The benchmarks of the paper's tables (UEval, CoMM, WISE, RISE) on their published data.

Experimental: they were run on miniatures of the data alone, with no full-size model. Names and results may
change without notice until one benchmark has been run on its real data.
"""
