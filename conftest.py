"""The root of every test: fixtures and settings are in tests/support/plugin.py."""

pytest_plugins = ["support.plugin"]
