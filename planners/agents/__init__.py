"""The agents of InterleaveThinker on any chat model: the Planner, the Critic and VIEScore."""
