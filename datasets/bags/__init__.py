"""ROS 2 bags in: a recording of topics becomes a LeRobot dataset. Needs rosbags, and no ROS."""
