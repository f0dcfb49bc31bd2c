"""Turn ROS 2 bags, which are recordings of topics, into LeRobot datasets. Needs rosbags, and no ROS."""
