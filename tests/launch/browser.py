"""A headless Chromium that tests drive: opens a page, clicks, types, takes a picture. It speaks the DevTools protocol over a pipe
(--remote-debugging-pipe: JSON texts, each ended by a zero byte)."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """Use it in a `with` statement. `console`: what pages have written there, and errors that nothing has caught."""

    def __init__(self, width=1400, height=900, timeout=60):
        self.timeout = timeout
        self.console = []
        self.number = 0
        self.rest = b""
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        from_us, self.to = os.pipe()
        self.from_it, to_us = os.pipe()
        command = (f'exec "$0" --headless --disable-gpu --no-sandbox --disable-dev-shm-usage --remote-debugging-pipe '
                   f'--hide-scrollbars --host-resolver-rules="MAP * ~NOTFOUND" --user-data-dir="$1" --window-size={width},{height} '
                   f'3<&{from_us} 4>&{to_us}')
        self.process = subprocess.Popen(["sh", "-c", command, find(), self.folder.name], pass_fds=(from_us, to_us),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "HOME": self.folder.name}, start_new_session=True)
        os.close(from_us)
        os.close(to_us)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(domain + ".enable", self.session)
        self.call("Emulation.setDeviceMetricsOverride", self.session, width=width, height=height, deviceScaleFactor=1, mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (OSError, EOFError, TimeoutError):
            pass
        os.close(self.to)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.from_it)
        self.folder.cleanup()

    def read(self, until):
        while b"\0" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.from_it], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self.from_it, 1 << 20)
            if not got:
                raise EOFError("the browser has ended")
            self.rest += got
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + self.timeout
        while True:
            answer = self.read(until)
            if answer.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                self.console.append(answer["params"])
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, path):
        self.call("Page.navigate", self.session, url=path.absolute().as_uri())

    def value(self, expression):
        """Of JavaScript; a promise's value is waited for."""
        result = self.call("Runtime.evaluate", self.session, expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression):
        until = time.monotonic() + self.timeout
        while not self.value(f"!!({expression})"):
            if time.monotonic() > until:
                raise TimeoutError(expression)
            time.sleep(0.02)

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", self.session, type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left",
                      clickCount=0 if kind == "mouseMoved" else 1)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", self.session, type=kind, key=key, text=key if kind == "keyDown" and len(key) == 1 else "")

    def picture(self, path):
        """As PNG."""
        data = self.call("Page.captureScreenshot", self.session, format="png")["data"]
        path.write_bytes(base64.b64decode(data))
