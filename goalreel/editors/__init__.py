"""Editors turn a picture (or none), a prompt and a seed into a picture.

- `diffusers.DiffusersEditor`: any diffusers pipeline in this process; `catalogue` holds those known by name.
- `remote.RemoteEditor`: an image server over HTTP; `formats` holds the requests of each kind of server.
- `hindsight.HindsightEditor`: takes the goal image from the recorded episode's own future.
"""
