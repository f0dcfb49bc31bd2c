"""HTTP: one client for model servers, and what our own servers share."""
