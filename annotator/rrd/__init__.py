"""Recordings for the Rerun viewer. They need rerun-sdk, which comes with `goalreel[rerun]`."""
