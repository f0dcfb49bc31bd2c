"""What renders: the Editors, which turn a picture (or none), a prompt and a seed into a picture.

- `diffusers.DiffusersEditor`: any diffusers pipeline in this process; `catalogue` holds those known by name.
- `remote.RemoteEditor`: an image server over HTTP; `protocols` holds what each kind of server is told.
- `hindsight.HindsightEditor`: takes the goal image from the recorded episode's own future.
- `split.SplitEditor`: draws with one editor, edits with another.
"""
