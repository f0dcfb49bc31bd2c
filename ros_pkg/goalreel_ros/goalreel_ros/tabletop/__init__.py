"""The simulated tabletop as ROS 2 nodes: a camera to plan from and a follower that moves the blocks."""
