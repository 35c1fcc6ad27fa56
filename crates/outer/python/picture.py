"""A view of the live page, or the beginning of a report, as a picture, for the manual.

picture.py CHROMIUM URL USER PASSWORD VIEW WORDS FILE   logs in, waits until the view has the words, and writes FILE.
picture.py CHROMIUM REPORT FILE                         opens a report, and writes FILE.
"""

import pathlib
import sys

from browser import Browser


def main(chromium, url, user, password, view, words, file):
    with Browser(chromium) as browser:
        browser.size(1200, 900 if view == "now" else 720)
        browser.theme("light")
        browser.open(f"{url}/")
        browser.until("document.activeElement?.name === 'user'", "the login asks for a name")
        browser.type(user)
        browser.run("document.querySelector('[name=password]').focus()")
        browser.type(password)
        browser.press("Enter", text="\r")
        browser.until("location.pathname === '/' && document.querySelector('main').innerText.length > 0", "it is let in")
        browser.run(f"location.hash = '{view}'")
        browser.until(f"document.querySelector('main').innerText.includes({words!r})")
        # Lines of the charts have some seconds then.
        browser.rest(4)
        browser.picture(pathlib.Path(file))


def report(chromium, page, file):
    with Browser(chromium) as browser:
        browser.size(1200, 900)
        browser.theme("light")
        browser.open(pathlib.Path(page).as_uri())
        browser.until("document.readyState === 'complete' && document.querySelector('article')", "the report is there")
        browser.picture(pathlib.Path(file))


if __name__ == "__main__":
    (report if len(sys.argv) == 4 else main)(*sys.argv[1:])
