"""Benchmarks of robot videos on their published data: WGO-Bench (segments and labels), RoboRewardBench.

Experimental: they were run on miniatures of the data alone.
"""
