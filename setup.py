"""All there is to say is in pyproject.toml."""

from setuptools import setup

setup()
