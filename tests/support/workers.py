"""`--workers N`: run the tests in N processes that are forked from the one which collected them.

Collecting imports torch, diffusers, lerobot and ROS, which takes longer than a hundred tests. A fork has them
for nothing, and shares their memory. A worker runs file after file, with one set of session fixtures. If it
dies, the test that it ran fails, and another worker goes on with the next one.
"""

import multiprocessing
import warnings
from collections import deque
from itertools import groupby
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

import pytest

FORK = multiprocessing.get_context("fork")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workers", type=int, default=0, metavar="N", help="run the tests in N forked processes"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the collected tests in workers, if the command line asks for some and all could be collected."""
    option = session.config.option
    if not option.workers or option.collectonly or session.testsfailed:
        return None
    Run(session).run(option.workers)
    return True


class Worker(NamedTuple):
    """A process, the pipe to it, and the numbers of the tests that it has and has not finished."""

    process: multiprocessing.Process
    pipe: Connection
    tests: deque[int]


class Run:
    """The tests of a session, by number, and who runs them."""

    def __init__(self, session: pytest.Session) -> None:
        self.session = session
        numbers = range(len(session.items))
        self.files = deque(
            list(file) for _, file in groupby(numbers, lambda number: session.items[number].path)
        )
        self.workers: dict[Connection, Worker] = {}
        self.folder = session.config._tmp_path_factory.getbasetemp()
        self.started = 0

    def run(self, count: int) -> None:
        """Run all tests.

        Raises:
            pytest.Session.Failed: as many failed as the command line allows.
        """
        try:
            for _ in range(min(count, len(self.files))):
                self._start()
            while self.workers:
                for pipe in wait(list(self.workers)):
                    self._listen(self.workers[pipe])
                    if self.session.shouldfail:
                        raise self.session.Failed(self.session.shouldfail)
        finally:
            for worker in self.workers.values():
                worker.pipe.close()  # it ends after its test, when it can tell nobody
                worker.process.join()

    def _start(self) -> None:
        pipe, other = FORK.Pipe()
        self.started += 1
        process = FORK.Process(target=self._work, args=(other, [pipe, *self.workers]))
        self.workers[pipe] = Worker(process, pipe, deque())
        with warnings.catch_warnings():
            # Of the threads that pyarrow and ROS start when they are imported: they wait, and hold nothing.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            process.start()
        other.close()

    def _listen(self, worker: Worker) -> None:
        hook = self.session.config.hook
        try:
            name, arguments = worker.pipe.recv()
        except EOFError:
            name = "end"
        if name == "end":
            self._end(worker)
        elif name == "next":
            file = self.files.popleft() if self.files else []
            worker.tests.extend(file)
            worker.pipe.send(file)
        elif name == "pytest_warning_recorded":
            getattr(hook, name).call_historic(kwargs=arguments)
        else:
            if name == "pytest_runtest_logreport":
                arguments = {
                    "report": hook.pytest_report_from_serializable(config=self.session.config, data=arguments)
                }
            elif name == "pytest_runtest_logfinish":
                worker.tests.popleft()
            getattr(hook, name)(**arguments)

    def _end(self, worker: Worker) -> None:
        worker.process.join()
        del self.workers[worker.pipe]
        if worker.tests:
            item = self.session.items[worker.tests.popleft()]
            reason = f"the process that ran it ended with exit code {worker.process.exitcode}"
            report = pytest.TestReport(item.nodeid, item.location, {}, "failed", reason, "call")
            item.config.hook.pytest_runtest_logreport(report=report)
            self.files.extendleft([list(worker.tests)] if worker.tests else [])
            if self.files:
                self._start()

    def _work(self, pipe: Connection, others: list[Connection]) -> None:
        """Run files until there are none, in a process of its own."""
        for other in others:
            other.close()  # or nobody would notice that the first process is gone
        config, items = self.session.config, self.session.items
        folder = self.folder / f"worker{self.started}"
        folder.mkdir()
        config._tmp_path_factory._basetemp = folder
        for reporter in ("terminalreporter", "junitxml"):
            config.pluginmanager.unregister(name=reporter)
        relay = Relay(config)
        config.pluginmanager.register(relay)
        relay.pipe = pipe
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # into files that all workers would share
        capture.start_global_capturing()
        capture.suspend_global_capture()

        def more() -> list[int]:
            pipe.send(("next", {}))
            return pipe.recv()

        try:
            tests = more()
            while tests:
                item = items[tests.pop(0)]
                tests = tests or more()  # what comes next decides which fixtures end
                config.hook.pytest_runtest_protocol(item=item, nextitem=items[tests[0]] if tests else None)
        except (BrokenPipeError, EOFError, KeyboardInterrupt):
            pass  # the first process is gone, or about to be
        finally:
            self.session._setupstate.teardown_exact(None)


class Relay:
    """Tells the first process what its terminal and reports have to know."""

    pipe: Connection | None = None  # it hears what was before, too, when it is registered

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logstart(self, nodeid: str, location: tuple) -> None:
        self.pipe.send(("pytest_runtest_logstart", {"nodeid": nodeid, "location": location}))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple) -> None:
        self.pipe.send(("pytest_runtest_logfinish", {"nodeid": nodeid, "location": location}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.pipe.send(("pytest_runtest_logreport", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: tuple | None
    ) -> None:
        if self.pipe is None:
            return
        text = f"{warning_message.category.__name__}: {warning_message.message}"
        plain = warnings.WarningMessage(text, Warning, warning_message.filename, warning_message.lineno)
        arguments = {"warning_message": plain, "when": when, "nodeid": nodeid, "location": location}
        self.pipe.send(("pytest_warning_recorded", arguments))
