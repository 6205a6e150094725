"""Pages in headless Chromium: a script on the page leaves what it found as JSON in `<pre id="found">`."""

import html
import json
import re
import shutil
import subprocess

import pytest


def chromium(*arguments):
    """Runs Chromium and returns its output; the browser is a declared need of the tests that call this."""
    binary = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)
    if binary is None:
        pytest.fail("no Chromium found; on Debian: apt-get install -y --no-install-recommends chromium")
    base = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    done = subprocess.run([binary, *base, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def found(profile, address, *arguments):
    """Opens `address` with a profile folder of its own and returns what the page found."""
    dom = chromium(f"--user-data-dir={profile}", *arguments, "--dump-dom", address)
    match = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    assert match, dom[-2000:]
    return json.loads(html.unescape(match.group(1)))
