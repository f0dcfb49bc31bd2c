"""Headless Chromium for tests of pages."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
SWITCHES = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs chromium: apt-get install chromium chromium-driver"
)


def chromium(profile: Path, *logs: str, more: str = "") -> Iterator:
    """A browser of its own, and its end; it logs what pages say, and `logs`; `more` are switches."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for switch in [*SWITCHES.split(), *more.split(), f"--user-data-dir={profile}"]:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", dict.fromkeys(("browser", *logs), "ALL"))
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(CHROMEDRIVER))
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


CONTRAST = """
const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
const light = (c) => c.slice(0, 3).map((v) => v / 255)
  .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (node) => {
  for (; node; node = node.parentElement) {
    const c = rgb(getComputedStyle(node).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
return [...document.querySelectorAll(
  "h1,h2,h3,p,dt,dd,.badge,.number,.track b,.muted,summary,.axis span,label")]
  .filter((n) => n.checkVisibility() && n.textContent.trim() && !n.closest("dialog"))
  .map((n) => [light(rgb(getComputedStyle(n).color)), light(ground(n))].sort((a, b) => b - a))
  .map(([high, low]) => (high + 0.05) / (low + 0.05));
"""
