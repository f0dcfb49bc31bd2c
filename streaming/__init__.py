"""A storyboard while a robot acts on it: frames in, sub-goals out, tracked and re-planned. No ROS here."""
