"""Chat models: back ends, the wording of questions, and the reading of replies.

- `conversation.Chat`: the base class; `openai.OpenAIChat` calls a model over HTTP, `hf.HfChat` runs one in
  this process, and `conversation.RecordingChat` records one. `conversation.ask` asks until each answer is
  readable.
- `dialects`: the wording of the agents' questions, our own or InterleaveThinker's; `prompts` has ours.
- `plan`, `verdict`: the forms of the agents' replies, read and written.
"""
