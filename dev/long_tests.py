"""Write tests/long.txt, the tests that `make quick` leaves out, from the times of a run of `make test`.

python dev/long_tests.py [out/tests.xml]
"""

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "long.txt"
LONG_S = 0.6
"""Seconds that the longest case of a test takes, beside two others on two cores."""


def long_tests(report: Path) -> list[str]:
    """Name the long tests of a JUnit report, as FILE::TEST without parameters; the longest files first."""
    seconds: dict[str, float] = defaultdict(float)
    files: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(report).iter("testcase"):
        file = f"{case.attrib['classname'].replace('.', '/')}.py"
        test = f"{file}::{case.attrib['name'].partition('[')[0]}"
        seconds[test] = max(seconds[test], float(case.attrib["time"]))
        files[file] += float(case.attrib["time"])
    long = [test for test, longest in seconds.items() if longest >= LONG_S]
    return sorted(long, key=lambda test: (-files[test.partition("::")[0]], test))


if __name__ == "__main__":
    report = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "tests.xml"
    LIST.write_text("".join(f"{test}\n" for test in long_tests(report)))
