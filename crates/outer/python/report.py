"""How long a report is, in a real browser.

report.py CHROMIUM FILE FOLDER   opens a report, and leaves a picture of it in FOLDER.
Ends with status 1 if it is higher than three screens, has more than three sheets of paper, or is wider than a phone.
"""

import base64
import pathlib
import re
import sys

from browser import Browser

SCREENS = 3
WIDTH, HEIGHT = 1440, 900


def main(chromium, file, folder):
    with Browser(chromium) as browser:
        browser.size(WIDTH, HEIGHT)
        browser.theme("light")
        browser.open(pathlib.Path(file).as_uri())
        browser.until("document.readyState === 'complete' && document.querySelector('article')", "the report is there")
        height = browser.run("document.documentElement.scrollHeight")
        browser.size(WIDTH, height)
        browser.picture(pathlib.Path(folder) / "report.png")
        paper = base64.b64decode(browser.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])
        sheets = len(re.findall(rb"/Type\s*/Page\b(?!s)", paper))
        browser.size(390, 844, 2, True)
        width = browser.run("document.documentElement.scrollWidth")
        browser.picture(pathlib.Path(folder) / "report-phone.png")
        print(f"a report: {height / HEIGHT:.2f} screens of {WIDTH} x {HEIGHT}, {sheets} sheets of A4, {width} wide on a phone of 390")
        if height > SCREENS * HEIGHT or not 1 <= sheets <= SCREENS or width > 390:
            raise SystemExit(f"not so: three screens, three sheets, and as wide as a phone: {height}, {sheets}, {width}")


if __name__ == "__main__":
    main(*sys.argv[1:])
