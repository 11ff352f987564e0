#!/usr/bin/env python3
"""check_page.py - the Explorer's page in a real browser, served by the program from a store of made-up runs and
one that trains meanwhile. Left out (exit 77) without chromium, chromedriver or Python's selenium; another
Python that has it may be named in $VIVACE_SELENIUM_PYTHON.

    check_page.py PROGRAM SOURCE [PICTURES]     PICTURES: folder for four screenshots
"""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.dont_write_bytecode = True  # the source stays as it is
from page_runs import make_runs, write_runs

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
except ImportError:
    other = os.environ.pop("VIVACE_SELENIUM_PYTHON", None)
    if other:
        os.execv(other, [other] + sys.argv)
    print("check_page: Python's selenium is not installed")
    sys.exit(77)

PATIENCE = 120  # seconds; a busy machine is slow, and nothing here is about speed but `speed`


class Server:
    """`PROGRAM explore` over a store, or over the files among the options."""

    def __init__(self, program, db, *options):
        store = ["--db", db] if db else []
        self.process = subprocess.Popen([program, "explore", *store, "--port", "0", "--no-browser", *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            said = self.process.communicate()[1].strip()
            print("check_page: " + said)
            sys.exit(77 if "this build has no" in said else 1)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", self.url), "explore said: " + self.url

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        said = self.process.communicate(timeout=PATIENCE)[1]
        assert self.process.returncode == 0, "explore ended with %d: %s" % (self.process.returncode, said)


def start_browser(downloads):
    options = Options()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1500,1000", "--force-prefers-reduced-motion"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": downloads,
                                              "download.prompt_for_download": False})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    browser.set_script_timeout(PATIENCE)
    # How long something took the processor, which a busy machine changes less than how long it lasted.
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    return browser


class Page:
    """The page in the browser, and what to do there."""

    def __init__(self, browser, base):
        self.browser, self.base = browser, base
        self.requests = []

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def text(self, selector):
        """The text of the first such element, None without one."""
        return self.run("const e = document.querySelector(arguments[0]);"
                        "return e ? e.textContent.trim() : null;", selector)

    def click(self, selector):
        self.wait("an element " + selector, lambda: self.run(
            "const e = document.querySelector(arguments[0]); if (e) e.click(); return Boolean(e);", selector))

    def wait(self, what, condition):
        until = time.monotonic() + PATIENCE
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < until, "waited in vain for " + what
            time.sleep(0.05)

    def open(self, query=""):
        self.browser.get(self.base + query)
        self.wait("the first view", lambda: self.run("return document.documentElement.dataset.firstViewMs"))

    def shown(self):
        return int(self.text("#shown"))

    def query(self):
        return urllib.parse.parse_qs(urllib.parse.urlparse(self.browser.current_url).query)

    def places(self, axis):
        return self.run("return window.vivacePlaces()")[axis]

    def view(self):
        """What is seen, as text and numbers: two equal views are one."""
        self.wait("the card", lambda: not self.query().get("selected") or self.text("#card-name"))
        return {"shown": self.shown(), "places": self.run("return window.vivacePlaces()"),
                "card": self.text("#card"), "filters": self.text("#filters"), "ranks": self.text(".ranks"),
                "query": self.query()}

    def keep_requests(self):
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])

    def check_quiet(self):
        """No error and no warning in the console, no request beyond the page's own host."""
        said = [e["message"] for e in self.browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
        assert not said, said
        self.keep_requests()
        away = [u for u in self.requests if not u.startswith((self.base, "data:", "blob:" + self.base, "chrome:"))]
        assert not away and any(u.startswith(self.base + "api/runs") for u in self.requests), away


def plotted(runs, dataset="fashion_mnist"):
    return [r for r in runs if r["dataset"] == dataset and r["status"] != "failed"]


def names(run):
    return {m["name"] for m in run["methods"]}


def quality_of(run):
    return [e for e in run["evals"] if e["metric"] == "accuracy"][-1]["value"]


# ---- what must hold ----

def logic(page, source, runs):
    """What the modules compute holds in this browser too."""
    page.open()
    with open(os.path.join(source, "tests/explorer/check_logic.mjs")) as file:
        text = file.read().replace("export async function", "async function").split("if (typeof process")[0]
    page.browser.set_script_timeout(PATIENCE)
    result = page.browser.execute_async_script(
        text + "\nconst done = arguments[1]; checkLogic(arguments[0]).then(done, e => done({wrong: [String(e)]}));",
        page.base.rstrip("/"))
    assert not result["wrong"] and result["count"] > 300, result["wrong"][:5]


def load(page, source, runs):
    """The whole data set is there: failed runs are counted, and have no dot."""
    page.open()
    good, failed = plotted(runs), [r for r in runs if r["dataset"] == "fashion_mnist" and r["status"] == "failed"]
    assert failed and page.shown() == len(good), (page.shown(), len(good))
    assert "%d failed" % len(failed) in page.text("#unplotted"), page.text("#unplotted")
    for axis in ("time", "cost"):
        seen = {p["id"] for p in page.places(axis)}
        assert seen == {r["id"] for r in good}, seen ^ {r["id"] for r in good}


def frontier(page, source, runs):
    """The page and /api/frontier, written apart, see the same frontier."""
    for model, metric in (("resnet9", "eval/accuracy"), ("mlp", "eval/cross_entropy")):
        query = "dataset=fashion_mnist&model=%s&metric=%s" % (model, metric)
        page.open("?" + query)
        for axis in ("time", "cost"):
            said = page.browser.execute_async_script(
                "const done = arguments[1]; fetch(arguments[0]).then(r => r.json()).then(done);",
                "/api/frontier?x=%s&%s" % (axis, query))
            told = {p["id"] for p in said["points"] if p["frontier"]}
            seen = {p["id"] for p in page.places(axis) if p["front"]}
            assert seen == told and len(told) > 1, (axis, seen ^ told)
            assert said["fit"] and said["higher_is_better"] == (metric == "eval/accuracy"), said["fit"]


def filters(page, source, runs):
    """Any of, all of, none of, exactly these methods; the address follows, and Back undoes."""
    page.open()
    for method in ("mixup", "ema"):
        page.click('#facet-algorithms input[data-value="%s"]' % method)
    wanted = {"mixup", "ema"}
    for mode, keep in (("any", lambda m: m & wanted), ("all", lambda m: m >= wanted),
                       ("none", lambda m: not m & wanted), ("only", lambda m: m == wanted)):
        page.run("const s = document.getElementById('algorithms-mode'); s.value = arguments[0];"
                 "s.dispatchEvent(new Event('change'));", mode)
        count = len([r for r in plotted(runs) if keep(names(r))])
        assert page.shown() == count, (mode, page.shown(), count)
        assert page.query().get("algorithmsMode", ["any"]) == [mode]
    assert page.query()["algorithms"] == ["mixup", "ema"]
    page.browser.back()
    page.wait("the way back", lambda: page.query().get("algorithmsMode") == ["none"] and
              page.shown() == len([r for r in plotted(runs) if not names(r) & wanted]))
    page.click("#reset")
    assert page.shown() == len(plotted(runs))
    page.click('#facet-status input[data-value="interrupted"]')
    assert page.shown() == len([r for r in plotted(runs) if r["status"] == "interrupted"])


def card(page, source, runs):
    """A click selects the dot in both charts; the card tells the run's numbers, and where they are from."""
    page.open("?algorithms=ema&algorithmsMode=only")
    place = page.wait("dots", lambda: [p for p in page.places("time")])[0]
    run = [r for r in runs if r["id"] == place["id"]][0]
    box = page.browser.find_element("id", "plot-time")
    ActionChains(page.browser).move_to_element_with_offset(
        box, place["x"] - box.size["width"] / 2, place["y"] - box.size["height"] / 2).click().perform()
    page.wait("the card", lambda: page.text("#card-command"))
    assert page.query()["selected"] == [run["id"]], (page.query(), run["id"])
    got = {key: page.text('#card [data-key="%s"]' % key) for key in (
        "quality", "time", "cost", "seed", "ssr", "hardware", "price", "price-date", "kind", "commit", "model")}
    assert got["quality"] == "%.2f%%" % (100 * quality_of(run)), got
    assert seconds_of(got["time"].replace("estimated ", "")) == near(run["train_seconds"], 0.01), (got, run)
    assert float(got["cost"].replace("estimated ", "").lstrip("$")) == near(run["usd"], 0.01), (got, run["usd"])
    assert got["seed"] == str(run["seed"]) and float(got["ssr"]) == run["scale_schedule_ratio"], got
    assert got["hardware"] == run["hardware"] and got["price-date"] == run["price_date"], got
    assert got["kind"] == "on-demand" and got["commit"] == run["git_commit"] and got["model"] == run["model"], got
    assert page.text("#card-command") == run["command"] and page.text("#card-recipe") == run["recipe"].strip()
    assert "ema" in page.text("#card-methods") and "strength: 0.1" in page.text("#card-methods")
    assert page.text("#savings"), "nothing is said about savings"
    assert page.run("return document.querySelectorAll('#card svg.curve path').length") == 1
    assert ("estimated" in page.text('#card [data-key="time"]')) == run["estimated"]


def near(value, part):
    class Near:
        def __eq__(self, other):
            return abs(other - value) <= part * abs(value)
    return Near()


def seconds_of(text):
    """Of "27m02s", "7h30m", "1.5 s", "20 ms"."""
    units = {"d": 86400, "h": 3600, "m": 60, "s": 1, " s": 1, " ms": 0.001}
    return sum(float(n) * units[u] for n, u in re.findall(r"([\d.]+)( ms| s|[dhms])", text))


def share(page, source, runs):
    """The address, opened elsewhere, gives the same view."""
    page.open("?model=resnet9&compare=hardware&x=linear&reverse=1&yMin=0.9&group=1&sortBy=costSameQuality"
              "&price=c7a.2xlarge&theme=light&curve=stairs&seed=17&seed=18")
    page.wait("dots", lambda: page.places("time"))
    chosen = page.places("cost")[3]["id"]
    page.run("document.getElementById('plot-cost').focus()")
    ActionChains(page.browser).send_keys(Keys.HOME).send_keys(Keys.ARROW_RIGHT).send_keys("b").send_keys(
        Keys.ENTER).perform()
    page.wait("a selection", lambda: page.query().get("selected") and page.query().get("baseline"))
    url, first = page.browser.current_url, page.view()
    assert chosen and first["shown"] > 0
    page.browser.switch_to.new_window("tab")
    page.browser.get(url)
    page.wait("the first view", lambda: page.run("return document.documentElement.dataset.firstViewMs"))
    second = page.wait("the same view", lambda: (lambda v: v if v["card"] == first["card"] else None)(page.view()))
    page.browser.close()
    page.browser.switch_to.window(page.browser.window_handles[0])
    assert first == second, {k: (first[k], second[k]) for k in first if first[k] != second[k]}
    assert page.run("return document.documentElement.dataset.theme") == "light"


def keyboard(page, source, runs):
    """Without a mouse: arrows go from dot to dot and say what it is, Enter selects, C compares."""
    page.open("?model=mlp")
    page.wait("dots", lambda: page.places("time"))
    page.run("document.getElementById('plot-time').focus()")
    actions = ActionChains(page.browser)
    order = sorted(page.places("time"), key=lambda p: (p["x"], -p["y"]))
    actions.send_keys(Keys.HOME).perform()
    said = page.text("#live")
    assert re.search(r"\d+(st|nd|rd|th) of \d+ by time", said) and re.search("frontier|dominated|not ranked", said), said
    ActionChains(page.browser).send_keys(Keys.ARROW_RIGHT).send_keys(Keys.ARROW_RIGHT).send_keys(Keys.ENTER).perform()
    assert page.query()["selected"] == [order[2]["id"]], (page.query(), order[:4])
    assert page.text("#live").startswith("Selected: ")
    ActionChains(page.browser).send_keys("f").perform()
    assert "on the frontier of" in page.text("#live"), page.text("#live")
    ActionChains(page.browser).send_keys("c").perform()
    assert len(page.query()["run"]) == 1
    ActionChains(page.browser).send_keys(Keys.ESCAPE).perform()
    assert "selected" not in page.query()


def table(page, source, runs):
    """Sorted by any column both ways; the CSV is the filtered rows in that order."""
    page.open("?view=table&algorithms=sam")
    page.click('th[data-key="quality"] button')
    page.click('th[data-key="quality"] button')
    assert page.query()["sort"] == ["-quality"]
    wanted = [r for r in runs if r["dataset"] == "fashion_mnist" and "sam" in names(r)]
    page.click("#export-csv")
    path = os.path.join(page.downloads, "fashion_mnist.csv")
    page.wait("the download", lambda: os.path.exists(path))
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert {r["id"] for r in rows} == {r["id"] for r in wanted} and len(rows) == len(wanted)
    known = [float(r["quality"]) for r in rows if r["quality"]]
    assert known == sorted(known, reverse=True) and len(known) == len([r for r in wanted if r["evals"]])
    assert all(r["quality"] == "" for r in rows if r["status"] == "failed"), "a failed run has a quality"
    assert page.run("return document.querySelectorAll('table.runs tbody tr').length") > 0
    shown = page.text("table.runs tbody tr")
    assert "%.2f%%" % (100 * known[0]) in shown, shown


def compare(page, source, runs):
    """Two runs beside each other: what differs, and nothing that does not."""
    first = [r for r in plotted(runs) if r["model"] == "mlp"][0]
    second = [r for r in plotted(runs) if r["model"] == "resnet9" and r["seed"] != first["seed"]][0]
    page.open("?view=compare&run=%s&run=%s" % (first["id"], second["id"]))
    page.wait("the comparison", lambda: page.text('tr[data-key="model"]'))
    assert "mlp" in page.text('tr[data-key="model"]') and "resnet9" in page.text('tr[data-key="model"]')
    assert page.text('tr[data-key="seed"]') and not page.text('tr[data-key="batch_size"]')
    assert "%.2f%%" % (100 * quality_of(first)) in page.text('tr[data-key="quality"]')
    assert page.run("return document.querySelectorAll('.comparepane svg.curve path').length") == 2


def others(page, source, runs):
    """Every view draws; method effects have their pairs; another instance re-prices; dots go by group."""
    page.open("?view=effects")
    page.wait("effects", lambda: page.text("#effects"))
    assert page.text('#effects tr[data-method="sam"]')
    for view in ("parallel", "history", "frontier"):
        page.click("#tab-" + view)
        assert page.query().get("view", ["frontier"]) == [view]
    page.open("?price=c7a.24xlarge")
    run = [r for r in plotted(runs) if not r["estimated"]][0]
    page.open("?price=c7a.24xlarge&selected=" + run["id"])
    page.wait("the card", lambda: page.text("#card-command"))
    cost = page.text('#card [data-key="cost"]')
    assert cost.startswith("estimated") and "4.93" in page.text('#card [data-key="price"]'), cost
    assert float(cost.split("$")[1]) == near(run["train_seconds"] / 3600 * 4.92672, 0.01), cost
    page.open("?group=1&model=mlp")
    assert int(page.run("return document.documentElement.dataset.shown")) <= page.shown()
    page.open("?brush=time:10:20")
    assert page.shown() == len([r for r in plotted(runs) if 10 <= r["train_seconds"] <= 20])
    page.open("?selected=nobody&baseline=nobody&dataset=nothing&metric=x&yMin=abc")
    assert page.shown() == len(plotted(runs)) and "nobody" in page.text("#card")
    page.open("?minQuality=0.95&maxTime=5")
    assert "Fastest that reaches 95.00%" in page.text("#answers") and "none" in page.text("#answers")


def settings(page, source, runs):
    """Settings in which runs differ are columns, colours, axes and filters, and it is told what the quality hangs on."""
    rates = {r["id"]: r["settings"]["optimizer.lr"] for r in plotted(runs)}
    page.open("?compare=optimizer.lr")
    page.wait("its colours", lambda: len(page.run(
        "return [...document.querySelectorAll('.legend span')].filter(s => /^0\\.[1-4] /.test(s.textContent))")) ==
        len(set(rates.values())))
    page.open("?view=table&model=mlp&status=done")
    page.wait("its column", lambda: page.text('th[data-key="optimizer.lr"]'))
    page.open("?brush=optimizer.lr:0.15:0.35")
    page.wait("the brush", lambda: page.shown() == len([r for r in rates.values() if 0.15 <= float(r) <= 0.35]))
    page.open("?view=parallel&axes=optimizer.lr&axes=quality")
    page.wait("its axis", lambda: page.run("return [...document.querySelectorAll('.axes label')].some("
                                           "l => l.textContent === 'optimizer.lr' && l.querySelector('input').checked)"))
    page.open("?view=effects")
    page.wait("what matters", lambda: page.text('#importance tr[data-key="methods.sam"]'))
    shares = page.run("return [...document.querySelectorAll('#importance tbody tr')].map(r => parseInt(r.children[3].textContent))")
    assert shares == sorted(shares, reverse=True) and shares[0] > 0, shares
    first = page.text("#importance tbody tr td")
    assert first in ("Model", "Scale schedule ratio", "Duration"), first  # made so, by page_runs.py


def drags(page, source, runs):
    """Dragging along an axis of the parallel coordinates keeps what lies within, in a chart it zooms; a click undoes."""
    def drag(selector, x, y, dx, dy):  # from the middle of the element
        box = page.browser.find_element("css selector", selector)
        ActionChains(page.browser).move_to_element_with_offset(box, x, y).click_and_hold().move_by_offset(
            dx, dy).release().perform()
        return box

    page.open("?view=parallel")
    box = page.browser.find_element("css selector", ".parallel")
    drag(".parallel", box.size["width"] / 2 - 70, -box.size["height"] / 2 + 50, 0, 150)
    name, low, high = page.wait("a brush", lambda: page.query().get("brush"))[0].split(":")
    count = len([r for r in plotted(runs) if float(low) <= quality_of(r) <= float(high)])
    assert name == "quality" and 0 < count < len(plotted(runs)) and page.shown() == count, (low, high, count)
    page.click("#tab-frontier")
    assert page.shown() == count
    page.click("#reset")
    assert page.shown() == len(plotted(runs))
    before = len(page.places("time"))
    drag("#plot-time", -60, -60, 120, 90)
    page.wait("the zoom", lambda: {"xMin", "xMax", "yMin", "yMax"} <= set(page.query()))
    assert len(page.places("time")) < before and len(page.places("cost")) < before
    page.click(".ends .small")
    assert len(page.places("time")) == before and "xMin" not in page.query()


def live(page, source, runs):
    """A run that trains appears, moves, and ends, without the page being loaded again."""
    recipe = os.path.join(page.folder, "moving.yaml")
    with open(recipe, "w") as file:
        file.write("name: moving\nmodel: {name: mlp, width: 16}\n"
                   "dataset: {name: synthetic, like: mnist, kind: separable, count: 2000}\n"
                   "batch_size: 50\neval_batch_size: 500\nmax_duration: 12sec\neval_interval: 40ba\n"
                   "precision: fp32\nthreads: 1\nrun_db: %s\n" % page.db)
    page.open("?dataset=synthetic&search=moving")
    page.run("window.stillHere = true")
    training = subprocess.Popen([page.program, "train", recipe, "--run-dir", os.path.join(page.folder, "moving")],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        page.wait("a live dot", lambda: page.text("#shown") == "1" and "running" in page.text("#live-state"))
        page.click("#tab-table")
        page.click("#tab-frontier")
        first = page.wait("its place", lambda: page.places("time"))[0]
        page.run("document.getElementById('plot-time').focus()")
        ActionChains(page.browser).send_keys(Keys.HOME).send_keys(Keys.ENTER).perform()
        page.wait("its card", lambda: "running" in (page.text("#card .status") or ""))
        before = seconds_of(page.text('#card [data-key="time"]'))
        page.wait("movement", lambda: seconds_of(page.text('#card [data-key="time"]') or "0 s") > before)
        assert "not ranked" in page.run("return document.getElementById('live').textContent"), "a running run has a rank"
        assert training.wait(PATIENCE) == 0
        try:
            page.wait("its end", lambda: page.text("#card .status") == "done")
        except AssertionError:
            print("check_page: the page: %r; the server: %r" % (page.text("#card .id"), page.browser.execute_async_script(
                "const done = arguments[1]; fetch('/api/runs/' + arguments[0]).then(r => r.json())"
                ".then(r => done([r.status, r.seen, r.ended, r.progress]));", first["id"])))
            raise
        assert first["id"] == page.query()["selected"][0]
        assert page.run("return window.stillHere"), "the page was loaded again"
    finally:
        if training.poll() is None:
            training.kill()
            training.wait()


def notes(page, program, runs):
    """With --write a tag and a note are kept, and the filter knows the tag; without, the refusal is told."""
    page.open("?selected=" + runs[0]["id"])

    def attempt(on, label, button, text):
        on.wait("the card", lambda: on.text("#card-command"))
        on.run("const i = document.querySelector(`#card input[aria-label=\"${arguments[0]}\"]`); i.value = arguments[2];"
                 "[...document.querySelectorAll('#card button')].find(b => b.textContent === arguments[1]).click();",
                 label, button, text)

    attempt(page, "New tag", "Tag", "fine")
    page.wait("a refusal", lambda: "--write" in page.text("#card"))
    page.browser.get_log("browser")  # the browser tells of the 403 too
    page.keep_requests()
    server = Server(program, page.db, "--write")
    try:
        writer = Page(page.browser, server.url)
        writer.open("?selected=" + runs[0]["id"])
        attempt(writer, "New tag", "Tag", "fine")
        writer.wait("the tag", lambda: writer.text('#facet-tag input[data-value="fine"]') is not None)
        attempt(writer, "Note", "Keep note", "<b>not markup</b>")
        writer.wait("the note", lambda: writer.run(
            "const i = document.querySelector('#card input[aria-label=Note]'); return i && i.value") == "<b>not markup</b>")
        writer.click('#facet-tag input[data-value="fine"]')
        assert writer.shown() == 1
        writer.check_quiet()
        writer.browser.get("about:blank")
    finally:
        server.stop()
    said = subprocess.run([program, "runs", "show", runs[0]["id"], "--db", page.db], capture_output=True, text=True)
    assert "fine" in said.stdout and "<b>not markup</b>" in said.stdout, said.stdout
    page.browser.get_log("browser")


def gone(page, server):
    """A server that left is told, and what was shown stays."""
    page.open()
    before = page.shown()
    server.stop()
    page.wait("the word", lambda: page.text("#live-state") == "not connected")
    page.click("#tab-table")
    assert page.shown() == before
    page.browser.get("about:blank")
    page.browser.get_log("browser")
    page.browser.get_log("performance")


def cpu(page):
    metrics = page.browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return {m["name"]: m["value"] for m in metrics}["TaskDuration"] * 1000


def speed(browser, program, folder, count):
    """Ten thousand runs: how long the first view and a filter take. Asserted with much slack, for the machine
    may be busy; the processor's time is printed beside."""
    path, db = os.path.join(folder, "many.json"), os.path.join(folder, "many.db")
    write_runs(make_runs(count), path)
    subprocess.run([program, "runs", "import", path, "--db", db], check=True, stdout=subprocess.DEVNULL)
    server = Server(program, db)
    try:
        page = Page(browser, server.url)
        firsts, rows = [], []
        for _ in range(3):
            page.open()
            firsts.append((float(page.run("return document.documentElement.dataset.firstViewMs")), cpu(page)))
        everything = page.shown()
        for method in ("mixup", "sam", "ema", "mixup", "sam", "ema"):
            before = cpu(page)
            took = page.browser.execute_async_script(
                "const done = arguments[1]; const began = performance.now();"
                "document.querySelector(`#facet-algorithms input[data-value=\"${arguments[0]}\"]`).click();"
                "requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));", method)
            rows.append((took, cpu(page) - before))
        assert page.shown() == everything
        first, row = min(firsts), min(rows)
        print("check_page: %d runs: first view %.0f ms (processor %.0f ms), a filter %.0f ms (processor %.0f ms); load %.1f"
              % (count, first[0], first[1], row[0], row[1], os.getloadavg()[0]))
        assert first[1] < 8000 and row[1] < 1000, (firsts, rows)
        page.check_quiet()
    finally:
        server.stop()


def pictures(browser, program, source):
    """Screenshots for docs/, of the collection of real runs."""
    server = Server(program, None, os.path.join(source, "docs/results/collection.json"))
    try:
        page = Page(browser, server.url)
        browser.set_window_size(1440, 940)
        page.open()
        front = sorted((p for p in page.places("time") if p["front"]), key=lambda p: p["x"])
        for name, query in (("frontier", "theme=dark&selected=" + front[max(0, len(front) - 4)]["id"]),
                            ("effects", "theme=light&view=effects&model=resnet9"),
                            ("parallel", "theme=dark&view=parallel&dataset=mnist"),
                            ("colours", "theme=light&dataset=cifar10&compare=optimizer.lr")):
            page.open("?" + query)
            time.sleep(2)
            browser.save_screenshot(os.path.join(sys.argv[3], "explorer_%s.png" % name))
        browser.get("about:blank")
        browser.get_log("performance")
    finally:
        server.stop()


def main():
    program, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    if not (shutil.which("chromium") or shutil.which("chromium-browser")) or not shutil.which("chromedriver"):
        print("check_page: chromium and chromedriver are not installed")
        return 77
    folder = tempfile.mkdtemp(prefix="vivace-page-")
    runs = make_runs(400)
    path, db = os.path.join(folder, "runs.json"), os.path.join(folder, "runs.db")
    write_runs(runs, path)
    said = subprocess.run([program, "runs", "import", path, "--db", db], capture_output=True, text=True)
    if said.returncode and "this build has no" in said.stderr:
        print("check_page: " + said.stderr.strip())
        return 77
    assert said.returncode == 0, said.stderr
    server = Server(program, db)
    browser = start_browser(folder)
    try:
        page = Page(browser, server.url)
        page.folder, page.downloads, page.db, page.program = folder, folder, db, program
        for check in (logic, load, frontier, filters, card, share, keyboard, table, compare, others, settings, drags, live):
            check(page, source, runs)
            page.check_quiet()
            print("check_page: %s: %s" % (check.__name__, " ".join(check.__doc__.split())), flush=True)
        notes(page, program, runs)
        gone(page, server)
        print("check_page: notes and tags are written where they may be; a server that leaves is told", flush=True)
        speed(browser, program, folder, 10000)
        if len(sys.argv) > 3:
            pictures(browser, program, source)
    finally:
        if server.process.poll() is None:
            server.process.kill()
        browser.quit()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
