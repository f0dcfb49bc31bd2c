"""Scores of goalreel against ground truth; every score has a 95 % interval over episodes.

`review` scores a dataset by its reviewers' corrections, `metaworld` annotations by Meta-World's simulator,
`published` models on the benchmarks of the paper, and `videos` on benchmarks of robot videos (both
experimental). `statistics` computes the intervals.
"""
