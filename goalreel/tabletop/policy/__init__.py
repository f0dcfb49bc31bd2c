"""Does a sub-goal picture help a policy? LeRobot policies on the tabletop, under several kinds of goals."""
