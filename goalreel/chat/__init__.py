"""Chat models: back ends, the wording of questions, and the reading of replies.

- `conversation.Chat`: the seam; `openai.OpenAIChat` calls a model over HTTP, `hf.HfChat` runs one in this
  process, and `recording.RecordingChat` records one.
- `dialects`: the wording of the agents' questions, our own or InterleaveThinker's; `prompts` has ours.
- `parsing`, `reply_format`: read and write the agents' replies.
- `token_probability`: the certainty of a model about one word of its reply.
"""
