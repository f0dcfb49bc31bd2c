"""The former name of `goalreel.subgoal_camera`."""

import warnings

from goalreel.subgoal_camera import *  # noqa: F403

warnings.warn("goalreel.subgoal is now goalreel.subgoal_camera", DeprecationWarning, stacklevel=2)
