"""goalreel: storyboards of checked visual sub-goals for robot learning."""

__version__ = "0.1.0"
