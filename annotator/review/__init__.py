"""A local page where people look at the sub-goals of an annotated dataset, correct them, and say what they
are worth. It needs fastapi and uvicorn, which come with `goalreel[serve]`."""
