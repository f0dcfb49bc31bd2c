"""The models behind HTTP: one application for planner, critic, editor and whole storyboards."""
