# Two commands set everything up: `make demo` and `make test`.
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
GOALREEL := .venv/bin/goalreel
DEMO := out/demo
export HF_HUB_OFFLINE := 1
export MUJOCO_GL ?= egl

INTERFACES := $(wildcard $(addprefix ros_pkg/goalreel_interfaces/,*.* cmake/* msg/* srv/* action/*))
.venv/.ready: pyproject.toml setup.py constraints.txt scripts/bootstrap.sh $(INTERFACES) \
		ros_pkg/goalreel_ros/setup.py ros_pkg/goalreel_ros/setup.cfg ros_pkg/goalreel_ros/package.xml \
		ros_pkg/lerobot_camera_goalreel/pyproject.toml
	@scripts/bootstrap.sh

.PHONY: demo ros-demo test lint bench soak fuzz picture ros-picture help
demo: .venv/.ready  ## simulate tabletop episodes, annotate them, write the report
	@rm -rf $(DEMO)
	$(GOALREEL) tabletop record --episodes 4 --size 192 --out $(DEMO)/recorded
	$(GOALREEL) annotate $(DEMO)/recorded --out $(DEMO)/annotated
	$(GOALREEL) show $(DEMO)/annotated --out $(DEMO)/report

ros-demo: .venv/.ready  ## the closed loop on the simulated robot over ROS 2, filmed
	$(PYTHON) -m goalreel_ros.tabletop.demo --out out/ros_demo

test: lint  ## lint, then every fast test (under 15 minutes on 2 cores)
	$(PYTHON) -m pytest -n 2 -m "not slow" -q

lint: .venv/.ready  ## ruff format and ruff check
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .

soak: .venv/.ready  ## the long tests: 100 kills, 200 expert seeds
	$(PYTHON) -m pytest -m slow -q

picture: .venv/.ready  ## make the README's picture again
	@rm -rf out/picture && mkdir -p docs/images
	$(GOALREEL) tabletop record --episodes 2 --size 384 --cameras front --out out/picture/recorded
	$(GOALREEL) annotate out/picture/recorded --out out/picture/annotated --episodes 1
	$(GOALREEL) show out/picture/annotated --out out/picture/report
	cp out/picture/report/sheets/episode_000001.png docs/images/storyboard.png

ros-picture: .venv/.ready  ## make the ROS 2 picture again
	$(PYTHON) scripts/ros_picture.py

fuzz: .venv/.ready  ## fuzz the reply parser for longer
	@mkdir -p out/fuzz
	$(PYTHON) tests/fuzz/fuzz_parsing.py out/fuzz tests/data/replies -atheris_runs=200000 -max_len=4000 -timeout=120 -artifact_prefix=out/fuzz/

bench: .venv/.ready  ## every benchmark, each ending in one JSON line
	@for b in benchmarks/*.py; do echo "== $$b"; $(PYTHON) $$b --json || exit 1; done

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | sort
