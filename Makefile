# Two commands set everything up: `make demo` and `make test`.
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
GOALREEL := .venv/bin/goalreel
DEMO := out/demo
# The scene of the README's first picture (`make picture` names it).
SCENE := 900252
export HF_HUB_OFFLINE := 1
export HF_HUB_DISABLE_PROGRESS_BARS := 1
export DIFFUSERS_VERBOSITY := error
export MUJOCO_GL ?= egl
# Tests start hundreds of processes; without bytecode each compiles again what it imports of goalreel.
unexport PYTHONDONTWRITEBYTECODE

INTERFACES := $(wildcard $(addprefix ros_pkg/goalreel_interfaces/,*.* cmake/* msg/* srv/* action/*))
.venv/.ready: pyproject.toml setup.py constraints.txt scripts/bootstrap.sh lab/pyproject.toml $(INTERFACES) \
		ros_pkg/goalreel_ros/setup.py ros_pkg/goalreel_ros/setup.cfg ros_pkg/goalreel_ros/package.xml \
		ros_pkg/lerobot_camera_goalreel/pyproject.toml
	@scripts/bootstrap.sh

.PHONY: demo docs ros-demo quick quick-tests test all-tests lint rules types lab test-lerobot colcon bench soak picture ros-picture review-picture studio-picture help
demo: .venv/.ready  ## simulate, predict with the nano models, annotate, write reports (under 3 minutes on 2 cores)
	@rm -rf $(DEMO)
	$(GOALREEL) tabletop record --episodes 3 --split validation --first $$(($(SCENE) - 900000)) --size 192 --out $(DEMO)/recorded
	$(GOALREEL) tabletop scene --seed $(SCENE) --out $(DEMO)/scene.png > $(DEMO)/instruction.txt
	$(GOALREEL) plan $(DEMO)/scene.png "$$(cat $(DEMO)/instruction.txt)" --preset nano --out $(DEMO)/predicted
	$(GOALREEL) annotate $(DEMO)/recorded --replace-rows --out $(DEMO)/annotated
	$(GOALREEL) show $(DEMO)/annotated --out $(DEMO)/report
	$(GOALREEL) annotate $(DEMO)/recorded --replace-rows --preset nano --episodes 1 --out $(DEMO)/annotated_nano
	$(GOALREEL) show $(DEMO)/annotated_nano --out $(DEMO)/report_nano
	@echo
	@echo "Look at"
	@echo "  $(DEMO)/predicted/index.html    goals that the nano models predict from one picture, every attempt and verdict"
	@echo "  $(DEMO)/report/index.html       recordings, the first of that same scene: their sub-goals, and real frames as goals"
	@echo "  $(DEMO)/report_nano/index.html  one recording with predicted goals beside the real frames"
	@echo "and correct it:  $(GOALREEL) review $(DEMO)/annotated"
	@echo "Try a task of your own, and steer its plan:  $(GOALREEL) studio $(DEMO)/studio"

ros-demo: .venv/.ready  ## the closed loop of the nano models and a simulated robot over ROS 2, filmed
	$(PYTHON) -m goalreel_ros.tabletop.demo --preset nano --seed 900300 --out out/ros_demo

# Workers of `make test` on two cores: half of the time of each is spent waiting.
WORKERS := 4
TESTS := $(PYTHON) -m pytest --dist loadfile --no-loadscope-reorder -q --durations=50 --durations-min=1
quick: .venv/.ready  ## lint, and every short test that starts no other process
	@$(MAKE) --no-print-directory -j2 lint quick-tests

quick-tests: .venv/.ready
	$(TESTS) -n 2 -m "not slow and not lab and not long and not process"

# Its tests build the documentation too, as `make docs` does.
test: rules  ## that, and nodes, kills, wheels, colcon, documentation, and a smoke test of lab/
	@$(MAKE) --no-print-directory -j2 all-tests types

# A race in one test of thousands is no reason to lose a submission: a test that failed beside others is run
# once more, alone. One that fails again fails the run; one that passes is named loudly, and has to be mended.
ALONE := $(PYTHON) -m pytest -x -q -rA --show-capture=no --last-failed --last-failed-no-failures none
all-tests: .venv/.ready
	@$(TESTS) --tx "$(WORKERS)*popen//python=$(PYTHON) dev/xdist_worker.py" -m "not slow and not lab" --showlocals --junitxml=out/tests.xml || { \
		[ $$? = 1 ] && cp .pytest_cache/v/cache/lastfailed out/failed_once.json && \
		echo "failed beside others; once more, alone:" && $(ALONE) -m "not slow and not lab" && \
		printf '\n%s\n' "!!!!!!!!!! THE SECOND TRY HID THESE FAILURES: mend them !!!!!!!!!!" && \
		sed -n 's/^ *"\(.*\)": true.*/::warning::failed beside others, passed alone: \1/p' out/failed_once.json; }

lint: rules types docs  ## format, rules, spelling, types and the documentation's links

rules: .venv/.ready
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/codespell

types: .venv/.ready
	.venv/bin/pyrefly check --output-format min-text

docs: export NO_MKDOCS_2_WARNING := 1
docs: .venv/.ready  ## build the documentation site into out/site; a dead link fails
	$(PYTHON) -m mkdocs build  # with -q it would not count its warnings
	@echo "to read it: $(PYTHON) -m http.server --bind 127.0.0.1 --directory out/site, then open http://127.0.0.1:8000"

lab: .venv/.ready  ## the tests of lab/ beyond its smoke test, colcon, and long ones of the simulator: for whoever touches them
	$(TESTS) -n 2 -m "lab and not slow"

# lerobot's newest source, such as a checkout of its main branch: make test-lerobot LEROBOT=PATH
LEROBOT :=
OF_LEROBOT := tests/datasets/test_lerobot_recipes.py tests/datasets/test_lerobot_reference.py \
	tests/datasets/test_write_dataset.py tests/annotator/test_policy.py tests/streaming/test_rollout.py
test-lerobot: .venv/.ready  ## import all, and run tests that call lerobot, with its release and with LEROBOT=PATH to its source
ifeq ($(LEROBOT),)
	@echo "!!!!!!!!!! NOT TESTED with lerobot's main: give LEROBOT=PATH to its source !!!!!!!!!!"
else
	$(TESTS) -n 2 -m "not slow" $(OF_LEROBOT)
	PYTHONPATH=$(LEROBOT)/src $(PYTHON) dev/import_all.py $(LEROBOT)
	PYTHONPATH=$(LEROBOT)/src $(TESTS) -n 2 -m "not slow" $(OF_LEROBOT)
endif

colcon: .venv/.ready  ## build both ROS 2 packages with colcon, and run what it installs
	$(TESTS) -m slow tests/ros_pkg/test_colcon.py

soak: lab  ## the longest tests: lab, 100 kills, 200 expert seeds, ten minutes of ROS tasks, new random examples
	$(PYTHON) -m pytest -m slow -q -o faulthandler_timeout=0  # a thousand random datasets take an hour
	$(PYTHON) -m pytest -m "hypothesis and not slow" --hypothesis-profile new -q

picture: .venv/.ready  ## search the README's first picture again
	$(PYTHON) dev/nano_picture.py docs/images/storyboard.png

ros-picture: .venv/.ready  ## make the ROS 2 picture again
	$(PYTHON) dev/ros_picture.py docs/images/ros.png

review-picture: .venv/.ready  ## make the review page's picture and its GIF of carrying labels over again
	$(PYTHON) dev/review_picture.py docs/images/review.png
	PYTHONPATH=benchmarks:lab/benchmarks $(PYTHON) dev/carry_over_film.py docs/images/carry_over.gif

studio-picture: .venv/.ready  ## make the studio's picture again
	$(PYTHON) dev/studio_picture.py docs/images/studio.png

bench: .venv/.ready  ## every benchmark, each ending in one JSON line
	@for b in $(filter-out %/common.py,$(wildcard benchmarks/*.py lab/benchmarks/*.py)); do echo "== $$b"; $(PYTHON) $$b $$(grep -o -m 1 -e --json $$b) || exit 1; done

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | sort
