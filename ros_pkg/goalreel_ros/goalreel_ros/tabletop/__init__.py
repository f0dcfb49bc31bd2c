"""The simulated tabletop as ROS 2 nodes: a simulator with a camera, and a follower that moves the blocks."""
