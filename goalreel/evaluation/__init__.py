"""Scores of goalreel against ground truth; every score has a 95 % interval over episodes.

`real` scores cuts on labelled recordings of real robots, `review` a dataset by its reviewers' corrections,
`metaworld` annotations by Meta-World's simulator, and `published` models on the benchmarks of the paper
(experimental). `statistics` computes the intervals.
"""
