"""Trains LeRobot policies on demonstrations of the tabletop, to find out what goal pictures are worth."""
