"""Opens report pages in a headless Chromium and checks what a reader relies on.

usage: check.py CHROMIUM SCREENSHOT_FOLDER slices|tops PAGE...

Speaks the browser's debugging protocol over a pipe, so that nothing but Python's own library is needed.
Prints a line a page; the first claim that does not hold ends it with exit code 1.
"""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile

DEADLINE_S = 900
SLICE_PX = 1400


class Browser:
    """A browser at the other end of two pipes: it reads commands from 3 and writes answers to 4."""

    def __init__(self, executable, profile):
        command_read, self.command_write = os.pipe()
        self.answer_read, answer_write = os.pipe()
        arguments = [
            executable, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-extensions", "--disable-background-networking", "--hide-scrollbars",
            f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank",
        ]
        # A shell puts the pipes where the browser expects them.
        place = ["sh", "-c", f'exec "$@" 3<&{command_read} 4>&{answer_write}', "sh"]
        self.process = subprocess.Popen(
            place + arguments, pass_fds=(command_read, answer_write),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(command_read)
        os.close(answer_write)
        self.buffer = b""
        self.last_id = 0
        self.events = []

    def receive(self):
        while b"\0" not in self.buffer:
            chunk = os.read(self.answer_read, 1 << 16)
            if not chunk:
                raise SystemExit("the browser ended")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.command_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=20)


class Page:
    """One page in one tab of its own."""

    def __init__(self, browser, url, width, height, scheme, touch):
        self.browser = browser
        browser.events.clear()
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if touch else 1, mobile=touch)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.url = url
        self.call("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def wait_for(self, method):
        while not any(event.get("method") == method for event in self.browser.events):
            self.browser.events.append(self.browser.receive())

    def run(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def press(self, key, text=None):
        codes = {"Tab": 9, "Enter": 13}
        parameters = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        if text:
            parameters["text"] = text
        self.call("Input.dispatchKeyEvent", type="keyDown", **parameters)
        self.call("Input.dispatchKeyEvent", type="keyUp", **parameters)

    def screenshots(self, path, whole):
        """Slices of the page, each as high as can still be read when it is looked at; or the first alone."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        end = int(size["height"]) if whole else 1
        for number, top in enumerate(range(0, end, SLICE_PX)):
            clip = {"x": 0, "y": top, "width": size["width"], "height": min(SLICE_PX, size["height"] - top), "scale": 1}
            data = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
            path.with_name(f"{path.name}_{number:02}.png").write_bytes(base64.b64decode(data))

    def complaints(self):
        found = []
        for event in self.browser.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(f"console: {parameters['args']}")
            elif method == "Runtime.exceptionThrown":
                found.append(f"exception: {parameters['exceptionDetails']}")
            elif method == "Log.entryAdded":
                found.append(f"log: {parameters['entry']['text']}")
            elif method == "Network.requestWillBeSent" and parameters["request"]["url"] != self.url:
                found.append(f"request: {parameters['request']['url'][:100]}")
        return found

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)


def claim(holds, what):
    if not holds:
        raise SystemExit(f"does not hold: {what}")


FIRST_IDS = """Array.from(document.querySelectorAll('#all tbody tr')).filter(row => !row.hidden)
    .slice(0, 5).map(row => row.cells[0].textContent)"""
NUMBERS = """Array.from(document.querySelectorAll('#all tbody tr')).map(row => row.cells[COLUMN].dataset.n)
    .filter(Boolean).map(Number)"""
# What sticks out of the page itself; what scrolls inside its own box does not.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CONTRAST = """(() => {
    const colour = (element, property) => getComputedStyle(element)[property].match(/[0-9.]+/g).map(Number);
    const light = rgb => rgb.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = element => {
        for (; element; element = element.parentElement) {
            const own = colour(element, 'backgroundColor');
            if (own.length < 4 || own[3] > 0) return own;
        }
        return [255, 255, 255];
    };
    let worst = [99, ''];
    for (const element of document.querySelectorAll('h1, h2, p, li, td, th, a, label, button, figcaption, caption')) {
        if (!element.textContent.trim() || !element.offsetParent || element.closest('.zero')) continue;
        const [a, b] = [light(colour(element, 'color')), light(ground(element))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < worst[0]) worst = [ratio, element.className + ': ' + element.textContent.slice(0, 40)];
    }
    return worst;
})()"""


def check_table(page, name):
    column = page.run("Array.from(document.querySelectorAll('#all thead th')).findIndex(th => /hoisted/.test(th.textContent))")
    click = f"document.querySelectorAll('#all thead th')[{column}].querySelector('button').click()"
    sort = f"document.querySelectorAll('#all thead th')[{column}].getAttribute('aria-sort')"
    numbers = NUMBERS.replace("COLUMN", str(column))
    page.run(click)
    ascending = page.run(numbers)
    claim(page.run(sort) == "ascending" and ascending == sorted(ascending) and len(ascending) > 1, f"{name}: a click sorts")
    page.run(click)
    descending = page.run(numbers)
    claim(page.run(sort) == "descending" and descending == ascending[::-1] or sorted(descending) == ascending,
          f"{name}: a second click sorts the other way")
    claim(descending == sorted(descending, reverse=True), f"{name}: the largest number is first")
    # Typing as a reader does, key by key.
    page.run("document.getElementById('filter').focus()")
    for letter in "sync 1MiB":
        page.call("Input.insertText", text=letter)
    shown = page.run("Array.from(document.querySelectorAll('#all tbody tr')).filter(row => !row.hidden).map(row => row.cells[0].textContent)")
    claim(shown and all("sync" in text and "1MiB" in text for text in shown), f"{name}: typing filters")
    said = page.run("document.getElementById('shown').textContent")
    claim(said.startswith(f"{len(shown)} of "), f"{name}: the count is said: {said}")
    page.run("document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))")


def check_keyboard(page, name):
    seen = []
    for _ in range(200):
        page.press("Tab")
        seen.append(page.run("""(() => { const e = document.activeElement;
            return [e.id || e.tagName.toLowerCase(), e.closest('#all') ? 'table' : '', getComputedStyle(e).outlineStyle] })()"""))
        if seen[-1][0] == "button":
            break
    names = [entry[0] for entry in seen]
    claim("filter" in names and "button" in names, f"{name}: Tab reaches the filter and the headings: {names}")
    claim(names.index("filter") < names.index("button"), f"{name}: the filter comes before the headings")
    claim(all(entry[2] != "none" for entry in seen), f"{name}: focus is visible: {seen}")
    before = page.run(FIRST_IDS)
    page.press("Enter", "\r")
    page.press("Enter", "\r")
    claim(page.run("document.activeElement.closest('th').getAttribute('aria-sort')") == "descending", f"{name}: Enter sorts")
    claim(page.run(FIRST_IDS) != before, f"{name}: sorting moves rows")


def check_marks(page, name):
    claim(page.run("Array.from(document.querySelectorAll('svg')).every(s => s.getAttribute('aria-label') || s.getAttribute('aria-hidden'))"),
          f"{name}: every picture says what it shows")
    claim(page.run("Array.from(document.querySelectorAll('th')).every(th => th.scope)"), f"{name}: every heading has a scope")
    claim(page.run("document.querySelectorAll('script, link, img, iframe, object, embed').length") == 1, f"{name}: nothing is embedded")
    claim(page.run("!window.planted"), f"{name}: no foreign script ran")


def check(browser, path, folder, whole):
    url = path.resolve().as_uri()
    stem = path.stem
    for width, height, touch in [(1280, 900, False), (390, 844, True)]:
        for scheme in ["light", "dark"]:
            name = f"{stem} at {width}, {scheme}"
            page = Page(browser, url, width, height, scheme, touch)
            overflow = page.run(OVERFLOW)
            claim(overflow <= 0, f"{name}: nothing sticks out of the page ({overflow} px)")
            # A table of ids that are no one's but a test's may scroll in its box; the suite's own fits.
            wide = page.run("(() => { const box = document.getElementById('all').parentElement; return box.scrollWidth - box.clientWidth })()")
            claim(touch or stem == "hostile" or wide <= 0, f"{name}: the table fits ({wide} px)")
            ratio, where = page.run(CONTRAST)
            claim(ratio >= 4.5, f"{name}: text stands out from its ground: {ratio:.2f} at {where}")
            check_marks(page, name)
            page.screenshots(folder / f"{stem}_{width}_{scheme}", whole)
            if page.run("!!document.querySelector('#all')"):
                # First, while nothing has the focus yet.
                if not touch:
                    check_keyboard(page, name)
                check_table(page, name)
            claim(page.run(OVERFLOW) <= 0, f"{name}: nor after sorting and filtering")
            claim(not page.complaints(), f"{name}: {page.complaints()}")
            page.close()
    print(f"{path.name}: opened four times, sorted, filtered, no complaint, no request")


def main():
    executable, folder, extent, *pages = sys.argv[1:]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(executable, profile)
        try:
            for page in pages:
                check(browser, pathlib.Path(page), folder, extent == "slices")
        finally:
            browser.close()


if __name__ == "__main__":
    import signal
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("the browser did not answer in time"))
    signal.alarm(DEADLINE_S)
    main()
