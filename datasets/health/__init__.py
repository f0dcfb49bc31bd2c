"""Checks of a LeRobot dataset: parts that lerobot could not read, and parts that deserve a look."""
