"""goalreel on ROS 2: the lifecycle node, its client, and the simulated tabletop that shows it."""
