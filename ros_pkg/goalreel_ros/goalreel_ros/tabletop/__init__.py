# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""The simulated tabletop as ROS 2 nodes: a simulator with a camera, and a follower that moves the blocks."""
