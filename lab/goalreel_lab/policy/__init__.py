"""LeRobot policies on the tabletop under several kinds of goals: what `goalreel eval policy` measures."""
