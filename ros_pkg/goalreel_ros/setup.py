# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""ament_python package: colcon and pip both read this file; package.xml has the version."""

from pathlib import Path
from xml.etree import ElementTree

from setuptools import find_packages, setup

NAME = "goalreel_ros"
SHARED = sorted(
    str(f) for f in Path("launch").iterdir() if f.suffix in {".json", ".py", ".rviz", ".xml", ".yaml"}
)
manifest = ElementTree.parse("package.xml").getroot()


setup(
    name=NAME,
    version=manifest.findtext("version"),
    description=manifest.findtext("description"),
    license=manifest.findtext("license"),
    python_requires=">=3.12",
    install_requires=["setuptools"],
    extras_require={"test": ["pytest"]},  # colcon test runs pytest where it is asked for
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={NAME: ["fastdds_shm.xml", "py.typed"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml", *SHARED]),
    ],
    zip_safe=True,
    entry_points={
        "console_scripts": [
            # Not `goalreel`: pip would overwrite the command line of that name.
            "goalreel_node = goalreel_ros.main:main",
            "tabletop_simulator = goalreel_ros.tabletop.simulator:main",
            "tabletop_follower = goalreel_ros.tabletop.follower:main",
        ]
    },
)
