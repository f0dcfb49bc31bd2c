"""Measures what goalreel does against ground truth; every value has a 95 % interval over episodes.

`real` scores segments on labelled real recordings, `review` a dataset by its reviewers' corrections, and
`published` models on the benchmarks of the paper (experimental). `statistics` computes the intervals.
"""
