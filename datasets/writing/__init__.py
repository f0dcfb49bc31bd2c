"""LeRobot out: OUT as a pure function of IN, the committed records and a few settings."""
