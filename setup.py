"""Everything below `goalreel/`, whose links lead to the rooms beside it, is one import package."""

from setuptools import find_namespace_packages, setup

setup(packages=find_namespace_packages(include=["goalreel*"], exclude=["goalreel.checkpoints.*"]))
