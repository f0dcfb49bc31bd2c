# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""goalreel on ROS 2: the lifecycle node, its client, and the simulated tabletop that shows it."""
