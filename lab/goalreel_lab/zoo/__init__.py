"""Recordings of robots that are not ours, written in many ways, with a simulator's truth."""
