"""Make docs/report.png: run the demo and photograph its report with Chromium.

python docs/screenshot.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
]


def main() -> None:
    """Write the picture beside this file."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("this needs Chromium")
    with tempfile.TemporaryDirectory() as folder:
        report, picture = Path(folder) / "report.html", Path(folder) / "report.png"
        subprocess.run([sys.executable, "-m", "identikit", "demo", "--report", report], check=True)
        subprocess.run(
            [
                browser,
                *FLAGS,
                f"--user-data-dir={folder}/profile",
                "--window-size=1060,2200",
                f"--screenshot={picture}",
                report.as_uri(),
            ],
            check=True,
            capture_output=True,
        )
        shutil.copy(picture, Path(__file__).with_name("report.png"))


if __name__ == "__main__":
    main()
