"""Instructions to plan, written from banks of words and templates."""
