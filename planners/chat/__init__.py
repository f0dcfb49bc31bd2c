"""Chat models that answer the agents: the Chat protocol, models behind HTTP and in this process."""
