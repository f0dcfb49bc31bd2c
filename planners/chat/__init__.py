"""What answers the agents: the Chat protocol, and chat models behind HTTP or in this process."""
