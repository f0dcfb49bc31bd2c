"""How healthy a LeRobot dataset is: what lerobot could not read, and what deserves a look."""
