"""A Chromium without a window, driven over a pipe by the DevTools protocol; Python's own library is enough for it.

As a module it is `Browser`; page.py says what is done with it.
"""

import base64
import json
import os
import pathlib
import select
import subprocess
import tempfile
import time

# How long an answer, or what is waited for, may take.
PATIENCE = 120.0


class Browser:
    """Ends with the `with` block, its profile too."""

    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(prefix="pgweir-browser-", ignore_cleanup_errors=True)
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        # The protocol's descriptors are 3 and 4.
        script = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-color-profile=srgb",
             f"--user-data-dir={self.folder.name}", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.input, self.output = ours_in, ours_out
        self.buffer, self.number, self.events = b"", 0, []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.input)
        os.close(self.output)
        self.folder.cleanup()

    def _message(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.input], [], [], left)[0]:
                return None
            part = os.read(self.input, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.output, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self._message(until)
            if answer is None:
                raise RuntimeError(f"no answer to {method}")
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def rest(self, seconds):
        """Reads what the browser says meanwhile."""
        until = time.monotonic() + seconds
        while (event := self._message(until)) is not None:
            self.events.append(event)

    def run(self, script):
        """The value of an expression, which may be a promise."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def until(self, script, what=None):
        """Waits until an expression is true."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                value = self.run(f"Boolean({script})")
            except RuntimeError:
                # Between two pages there is nowhere to run it.
                value = None
            if value:
                return value
            self.rest(0.05)
        raise RuntimeError(f"it has not come to this: {what or script}; the page has: {self.text()[:3000]}")

    def text(self):
        return self.run("document.body ? document.body.innerText : ''") or ""

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def size(self, width, height, scale=1, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone)

    def theme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def press(self, key, **more):
        code = {"Escape": 27, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39}.get(key, ord(key[0].upper()))
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                      **(text if kind == "keyDown" else {}), **more)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def click(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path):
        made = self.call("Page.captureScreenshot", format="png")
        pathlib.Path(path).write_bytes(base64.b64decode(made["data"]))

    def whole(self, path, width, phone=False, scale=1):
        """The page in its whole length."""
        height = self.run("document.documentElement.scrollHeight")
        self.size(width, max(600, min(int(height), 6000)), scale, phone)
        self.rest(0.4)
        self.picture(path)

    def requests(self):
        """Where requests went, since the last time."""
        urls = [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return urls

    def complaints(self):
        """What the page has written into its console: errors, and what its policy has refused."""
        entries = [event["params"]["entry"] for event in self.events if event["method"] == "Log.entryAdded"]
        said = [f"{entry['text']} {entry.get('url', '')}".strip() for entry in entries if entry["level"] == "error"]
        said += [str(event["params"]["exceptionDetails"].get("exception", {}).get("description"))
                 for event in self.events if event["method"] == "Runtime.exceptionThrown"]
        said += [" ".join(str(argument.get("value", argument.get("description"))) for argument in event["params"]["args"])
                 for event in self.events
                 if event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] == "error"]
        return said
