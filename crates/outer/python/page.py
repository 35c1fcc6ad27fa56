"""The live page in a real browser.

page.py CHROMIUM URL USER PASSWORD POOLER FOLDER         logs in, looks at all views in both themes and sizes, and leaves pictures in FOLDER.
page.py CHROMIUM URL USER PASSWORD POOLER FOLDER blind   the same of a pooler with observe_interval = 0: what is said where nobody looks.
page.py CHROMIUM URL USER PASSWORD - FOLDER held WORDS   a pooler with a database that is held: the verdict begins with these words, and hosts are shown.
Ends with status 1 and the reason if something is not as it should be.
"""

import pathlib
import sys
import threading
import time

import psycopg

from browser import Browser

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><b>"
SIZES = {"desk": (1440, 900, False), "phone": (390, 844, True)}
# Something is announced.
TOLD = "[...document.querySelectorAll('[role=status].note')].some((one) => one.textContent.includes('{}'))"
VIEWS = ["now", "locks", "statements", "holders", "clients"]


class Traffic:
    """Somebody idle in a transaction, five that wait behind, and one who chose its texts badly."""

    def __init__(self, pooler):
        self.pooler = pooler
        self.holder = self.connect("nightly-import")
        self.holder.execute("create table if not exists items (id int primary key, n int)")
        self.holder.execute("insert into items values (7, 0) on conflict do nothing")
        self.holder.commit()
        self.holder.execute("/*controller:imports,action:run*/ update items set n = 1 where id = 7")
        self.waiters = [threading.Thread(target=self.wait, daemon=True) for _ in range(5)]
        for waiter in self.waiters:
            waiter.start()
        # No names with control characters in startup packets of libpq's URL: they come by SET.
        self.hostile = self.connect(HOSTILE)
        self.hostile.execute("select 1 as \"<img src=x>\" /* <script>document.title='owned'</script> \x1b[31m \u202e \r\n */")

    def connect(self, name):
        return psycopg.connect(self.pooler, application_name=name, prepare_threshold=None)

    def wait(self):
        with self.connect("checkout") as connection:
            connection.execute("/*controller:checkout*/ update items set n = 2 where id = 7")

    def end(self):
        self.holder.rollback()
        for waiter in self.waiters:
            waiter.join(20)
        self.hostile.close()
        self.holder.close()


def expect(true, what):
    if not true:
        raise SystemExit(f"not so: {what}")


def log_in_without_scripts(browser, url, user, password):
    """The form alone: as it is until its script has come."""
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(f"{url}/login")
    expect(browser.run("document.querySelector('#login button').disabled"), "without its script the form cannot be sent")
    for name, text in (("user", user), ("password", password)):
        browser.run(f"document.querySelector('[name={name}]').focus()")
        browser.type(text)
    browser.press("Enter", text="\r")
    # A form that is sent all the same is sent in a body.
    browser.rest(0.5)
    browser.run("document.getElementById('login').submit()")
    browser.until("document.readyState === 'complete' && !document.getElementById('login')", "the refusal is there")
    expect(not [asked for asked in browser.requests() if "password" in asked], "no password is in an address")
    expect("password" not in browser.run("location.href"), "no password is in the address")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    browser.call("Network.clearBrowserCookies")
    # It was refused, as it should be: that is an answer of 403, which browsers complain about.
    browser.events = []


def log_in(browser, url, user, password, shown="document.querySelector('.figures .figure')"):
    browser.open(f"{url}/")
    browser.until("location.pathname === '/login' && document.activeElement?.name === 'user'", "the login asks for a name")

    def send(secret):
        browser.run("document.querySelectorAll('input').forEach((input) => { input.value = ''; }); document.querySelector('[name=user]').focus()")
        browser.type(user)
        browser.run("document.querySelector('[name=password]').focus()")
        browser.type(secret)
        browser.press("Enter", text="\r")

    send("wrong")
    browser.until("document.getElementById('message').textContent.includes('wrong name or password')")
    send(password)
    browser.until(f"location.pathname === '/' && {shown}", "the page shows figures")
    expect(browser.run("document.cookie") == "", "scripts do not see the session")
    expect("wrong" not in browser.run("location.href") and password not in browser.run("location.href"), "no secret in the address")


def show_all(browser, folder):
    for theme in ("light", "dark"):
        browser.theme(theme)
        browser.until(f"document.documentElement.dataset.theme === '{theme}'")
        for size, (width, height, phone) in SIZES.items():
            for view in VIEWS:
                browser.size(width, height, 2 if phone else 1, phone)
                browser.run(f"location.hash = '{view}'; scrollTo(0, 0)")
                browser.until(f"document.querySelector('nav [aria-current]')?.hash === '#{view}'")
                browser.rest(1.3)
                browser.until(f"document.documentElement.scrollWidth <= {width}", f"{view} on a {size} is no wider than it")
                browser.picture(pathlib.Path(folder) / f"{view}-{size}-{theme}.png")


def look_at_texts(browser):
    """What clients say is text, wherever it stands."""
    browser.run("location.hash = 'clients'")
    browser.until("document.querySelector('[data-filter]')")
    browser.press("/")
    browser.type("onerror")
    browser.until(f"[...document.querySelectorAll('td')].some((cell) => cell.textContent.includes({HOSTILE!r}))", "the name is text")
    browser.press("Escape")
    browser.run(f"[...document.querySelectorAll('tr.opens')].find((row) => row.textContent.includes({HOSTILE!r})).click()")
    browser.until("document.querySelector('pre.sql')?.textContent.includes('<script>')", "the statement is text")
    said = browser.run("document.querySelector('pre.sql').textContent")
    expect("\x1b" not in said and "\u241b" in said and "\u202e" not in said and "U+202E" in said, f"escapes are shown: {said!r}")
    expect(browser.run("document.querySelectorAll('main img, main b script, main script').length") == 0, "nothing became an element")
    expect("owned" not in browser.run("document.title"), "nothing has run")


SCRIPTS = """
Promise.all([import('/words.js'), import('/tree.js')]).then(([words, tree]) => {
  const line = (depth, pid, statement, more) => ({ key: `db ${pid}`, depth, count: 1, members: [{ pid, client: pid, waiting: 1 }], behind: 9,
    database: 'shop', user: 'app', class: 'web', application: 'puma', tags: `controller=carts request_id=${pid}`, statement, waits: depth ? 'ShareLock' : null,
    object: 'tuple', ...more });
  const folded = tree.fold([line(0, 1, 'begin'), line(1, 2, 'update t set n = 2'), line(2, 3, 'update t set n = 3'), line(2, 4, "update t set n = 44 /*a:b*/"),
    line(2, 5, "update t set n = 'x'", { application: 'sidekiq' }), line(2, 6, 'delete from t'), line(2, 7, 'update t set n = 7', { object: 'relation' }),
    line(1, 8, 'update t set n = 8')]);
  return {
    numbers: [0, 0.03, 0.0004, 0.25, 9.96, 12, 123456].map(words.number),
    times: [0, 0.0004, 0.03, 0.9, 5, 50].map(words.lasted),
    marks: [3600, 86400].map((length) => words.marks([22, 24, 30, 48].map((hour) => new Date(2026, 6, 1, hour).getTime() / 1000), length)),
    folded: folded.map((one) => [one.depth, one.count, one.behind, one.application, one.tags, one.members.map((member) => member.pid).join(' ')].join('|')),
  };
})
"""


def look_at_scripts(browser):
    """Functions of the page's scripts that compute something, by tables."""
    got = browser.run(SCRIPTS)
    expect(got["numbers"] == ["0", "0.03", "< 0.001", "0.3", "10.0", "12", "123.5 k"], f"small numbers are no zeros: {got['numbers']}")
    expect(got["times"] == ["0", "< 1 µs", "30 µs", "900 µs", "5.0 ms", "50 ms"], f"small times are no zeros: {got['times']}")
    expect(got["marks"] == [["22:00", "00:00", "06:00", "00:00"], ["1 Jul 22:00", "2 Jul", "06:00", "3 Jul"]], f"an axis of a day has dates: {got['marks']}")
    expect(got["folded"] == [
        "0|1|9|puma|controller=carts request_id=1|1",
        "1|1|9|puma|controller=carts request_id=2|2",
        "2|3|0||controller=carts|3 4 5",
        "2|1|0|puma|controller=carts request_id=6|6",
        "2|1|0|puma|controller=carts request_id=7|7",
        "1|1|0|puma|controller=carts request_id=8|8",
    ], f"equal waiters are one line: {got['folded']}")


def look_at_locks(browser):
    browser.run("location.hash = 'locks'")
    browser.until(FOLDED, "the first in the queue has a line of its own, and the four behind it one")
    tree = browser.run("document.querySelector('.tree').innerText")
    expect("holds ExclusiveLock on tuple" in tree or "holds ExclusiveLock on items" in tree, f"one that waits shows what it has, too: {tree}")
    first = browser.run("document.querySelector('.tree > li > .node').innerText")
    # Focus and selection outlast what is drawn again each second.
    browser.run("document.querySelector('.tree a').focus(); getSelection().selectAllChildren(document.querySelector('.tree .sql'))")
    chosen = browser.run("getSelection().toString()")
    browser.rest(3.5)
    expect(browser.run("document.activeElement.matches('.tree a')"), "the focus stays")
    expect(chosen and browser.run("getSelection().toString()") == chosen, "the selection stays")
    browser.run("getSelection().removeAllRanges()")
    expect("idle in transaction" in first and "controller=imports" in first and "behind it" in first, f"the culprit is first: {first}")


FOLDED = "[...document.querySelectorAll('.tree button.count')].some((one) => one.textContent === '4 clients')"


def look_at_a_second(browser):
    """The tree of a second of the past, and victims that unfold."""
    browser.until(FOLDED, "that second has its lock tree")
    tree = browser.run("document.querySelector('.tree').innerText")
    first = tree.splitlines()[0]
    expect("idle in transaction" in first and tree.index("controller=imports") < tree.index("controller=checkout"), f"the root is first: {tree}")
    expect(tree.count("holds ") == 2, f"the root and the first that waits show what they have: {tree}")
    browser.run("document.querySelector('.tree button.count').click()")
    browser.until("document.querySelectorAll('.tree .members li').length === 4", "the ids of the four unfold")
    expect(browser.run("document.querySelector('[aria-label=Verdict] h2').textContent").startswith("At "), "the top says of which second it is")
    alike = "[...document.querySelectorAll('[aria-label=\"in detail\"] button.count')].find((one) => one.textContent === '4 alike')"
    before = browser.run("document.querySelectorAll('[aria-label=\"in detail\"] tbody tr').length")
    browser.until(alike, "four rows are one")
    browser.run(f"{alike}.click()")
    browser.until(f"document.querySelectorAll('[aria-label=\"in detail\"] tbody tr').length === {before} + 3", "they unfold")


def save_report(browser, folder, words):
    """The button saves the document of `pgweir report`."""
    downloads = pathlib.Path(folder) / "downloads"
    downloads.mkdir(exist_ok=True)
    for old in downloads.iterdir():
        old.unlink()
    browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
    browser.run("[...document.querySelectorAll('main button')].find((one) => one.textContent === 'Save report').click()")
    browser.until("![...document.querySelectorAll('main button')].find((one) => one.textContent === 'Save report').disabled", "it is saved")
    # The browser makes the file before it has the document.
    text, end = "", time.monotonic() + 60
    while not (text and all(word in text for word in words)) and time.monotonic() < end:
        browser.rest(0.05)
        saved = [file for file in downloads.iterdir() if file.suffix == ".html"]
        text = saved[0].read_text() if saved else ""
    expect(saved and saved[0].name.startswith("pgweir-report-"), f"the report is there: {list(downloads.iterdir())}")
    for word in words:
        expect(word in text, f"the report has {word!r}: {text[:4000]}")


def look_at_whose(browser):
    """Tags of clients, the order of holders, and statements of pgweir itself apart from the others."""
    browser.run("location.hash = 'clients'")
    browser.until("[...document.querySelectorAll('[aria-label=clients] td .tags')].some((one) => one.textContent.includes('controller=imports'))", "clients have tags")
    browser.run("location.hash = 'holders'")
    browser.until("document.querySelectorAll('[aria-label=holders] tbody tr').length >= 6", "the holders are there")
    whys = browser.run("[...document.querySelectorAll('[aria-label=holders] tbody tr td:nth-child(2)')].map((one) => one.innerText.trim())")
    victims = [why.startswith("waits for a lock") for why in whys]
    expect(victims == sorted(victims) and any(victims) and not all(victims), f"those that wait for a lock come last: {whys}")
    browser.run("location.hash = 'statements'")
    browser.until("document.querySelector('details.folded:not([hidden])')?.textContent.includes('pg_sleep')", "statements of pgweir itself are there")
    expect(browser.run("!document.querySelector('details.folded').open"), "they are closed")
    others = browser.run("document.querySelector('[aria-label=\"sessions at a time\"]').innerText")
    expect("pg_sleep" not in others and "update items" in others, f"and not among those of applications: {others}")


def click_on_a_moment(browser, folder):
    browser.run("location.hash = 'now'")
    browser.until("document.querySelector('.u-over') && document.querySelectorAll('.legend li').length > 0")
    seen = "document.querySelector('main').innerText.includes('controller=imports')"
    browser.until(seen, "this second names the one in the way")
    verdict = "/behind nightly-import \\[imports, run\\].*To end it{}: KILL_CLIENT/.test(document.querySelector('[aria-label=Verdict]').innerText)"
    browser.until(verdict.format(""), "the page begins with the verdict")
    # An hour has fewer points across than seconds: the last point is to be one of them.
    browser.until("Number(performance.now()) > (globalThis.seenAt ??= performance.now()) + 5000", "some seconds are over")
    place = browser.run("(() => { scrollTo(0, 0); const box = document.querySelector('.u-over').getBoundingClientRect(); return [box.right - 2, box.top + box.height / 2]; })()")
    browser.click(*place)
    browser.until("/^#now\\/\\d+$/.test(location.hash) && document.querySelector('main').innerText.includes('At ')", "a click chooses a second")
    browser.until(seen, "that second names the one in the way")
    browser.until(verdict.format(" then"), "that second has its verdict")
    look_at_a_second(browser)
    save_report(browser, folder, ["nightly-import [imports, run]", "To end it then: KILL_CLIENT"])
    before = browser.run("location.hash")
    browser.press("ArrowLeft")
    browser.until(f"location.hash !== '{before}'")
    browser.press("Escape")
    browser.until("location.hash === '#now'")
    look_at_days(browser, folder)


def look_at_days(browser, folder):
    """A week, an hour of it, their reports, and a link to a second that is older than the hour."""
    button = "[...document.querySelectorAll('main button')].find((one) => one.textContent === '{}')"
    asked = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/{}?')).at(-1)?.name"
    length = "(() => {{ const query = new URL({}).searchParams; return Number(query.get('to')) - Number(query.get('from')); }})()"
    report = length.format(asked.format("report"))
    shown = "[...document.querySelectorAll('main [role=status].note')].every((one) => one.textContent === '')"
    browser.run("performance.setResourceTimingBufferSize(10000)")
    browser.run(f"{button.format('7 days')}.click()")
    browser.until(shown, "the week is read")
    save_report(browser, folder, ["nightly-import"])
    expect(browser.run(report) == 604800, "the report is of the week")
    place = browser.run("(() => { scrollTo(0, 0); const box = document.querySelector('.u-over').getBoundingClientRect(); return [box.right - 2, box.top + box.height / 2]; })()")
    browser.click(*place)
    browser.until(f"location.hash !== '#now' && {button.format('Its seconds')}", "a click chooses a point")
    browser.run(f"{button.format('Its seconds')}.click()")
    browser.until(f"!{button.format('Its seconds')} && {shown}", "its seconds are read")
    browser.press("Escape")
    browser.until("location.hash === '#now'")
    save_report(browser, folder, ["nightly-import"])
    expect(browser.run(report) == 3600, "the report is of the hour that is shown")
    browser.run("location.hash = 'locks'")
    browser.until("document.querySelector('nav [aria-current]')?.hash === '#locks'")
    browser.run("location.hash = 'now/1000000000'")
    around = asked.format("span")
    browser.until(f"{around}.includes('from=999998200&to=1000001800')", "the hour around that second is asked for")
    browser.until(f"{shown} && !document.querySelector('.figures .figure')", "it has no figures of another second")
    browser.run("location.hash = 'now'")
    browser.until("document.querySelector('.figures .figure')", "now has figures")


def go_about(browser):
    """Charts go with their view, the link past the navigation keeps the view, and no address breaks the page."""
    browser.run("location.hash = 'holders'")
    browser.until("document.querySelector('nav [aria-current]')?.hash === '#holders'")
    browser.until("uPlot.sync('hour').plots.length === 0", "charts that are not shown are gone")
    browser.run("document.querySelector('.skip').click()")
    browser.until("location.hash === '#holders' && document.activeElement.id === 'view'", "the view has the focus, and stays")
    browser.run("location.hash = 'client/%'")
    browser.until("document.querySelector('main').innerText.includes('not connected any more')")


def choose(browser, button, verb):
    """Presses a button of the view, and in the question that follows the one that does it."""
    browser.run(f"[...document.querySelectorAll('main button')].find((one) => one.textContent === '{button}').click()")
    browser.until("document.querySelector('#sure[open]')", "it asks before it does it")
    browser.run(f"[...document.querySelectorAll('#sure button')].find((one) => one.textContent === '{verb}').click()")


def cancel_a_query(browser, traffic):
    errors = []

    def run():
        with traffic.connect("long-report") as connection:
            try:
                connection.execute("select pg_sleep(600)")
            except psycopg.errors.QueryCanceled as error:
                errors.append(error)
                connection.rollback()
                errors.append(connection.execute("select 'goes on'").fetchone()[0])

    report = threading.Thread(target=run, daemon=True)
    report.start()
    browser.run("location.hash = 'clients'")
    row = "[...document.querySelectorAll('tr.opens')].find((row) => row.textContent.includes('long-report'))"
    browser.until(row)
    browser.run(f"{row}.click()")
    browser.until("document.querySelector('pre.sql')?.textContent.includes('pg_sleep')", "it runs")
    choose(browser, "Cancel query", "Cancel query")
    browser.until(TOLD.format('is being cancelled'), "it is announced")
    report.join(300)
    expect(len(errors) == 2 and errors[1] == "goes on", f"the query is cancelled, and its client goes on: {errors}")


def look_into(browser, folder, url, traffic):
    """Stacks, where a tool can be used."""
    button = "[...document.querySelectorAll('main button')].find((one) => one.textContent === 'Stacks')"
    browser.run("location.hash = 'now'")
    browser.until("document.querySelector('main h1')?.textContent === 'Now'")
    can = browser.run("fetch('/api/stacks', { headers: { 'X-Pgweir': '1' } }).then((answer) => answer.json()).then((ways) => ways.perf || ways.gdb)")
    if can:
        browser.until(f"!{button}.hidden", "the button is there")
    else:
        print("SKIPPED stacks in a browser: neither perf nor gdb can be used here")
        return
    stop = threading.Event()

    def work(name, statement):
        with traffic.connect(name) as connection:
            while not stop.is_set():
                connection.execute(statement)
                if name == "busy":
                    connection.commit()

    # One that stays at its backend, and some for the pooler, which needs little of a processor for each.
    statements = [("steady", "select count(*) from generate_series(1, 2000)")] + [("busy", "select 1")] * 3
    workers = [threading.Thread(target=work, args=one, daemon=True) for one in statements]
    for worker in workers:
        worker.start()
    shown = f"document.querySelector('img.flames')?.naturalWidth > 0 && {TOLD.format('flame graph is there')}"

    def press(what):
        browser.run(f"{button}.click()")
        browser.until("document.querySelector('#sure[open]')", "it asks which tool")
        asked = browser.run("document.querySelector('#sure').innerText")
        expect(what in asked and ("gdb" not in asked or "stops the process for 0.1 to 0.5 s" in asked), f"it says what happens: {asked}")
        verb = "By perf" if "By perf" in asked else "By gdb"
        browser.picture(pathlib.Path(folder) / f"stacks-question-{browser.run('document.documentElement.dataset.theme')}.png")
        browser.run(f"[...document.querySelectorAll('#sure button')].find((one) => one.textContent === '{verb}').click()")
        browser.until(f"{button}.disabled && {TOLD.format('being sampled')}", "it is announced")
        # A busy machine may leave the process no processor while it is sampled.
        browser.until(f"({shown}) || {TOLD.format('no samples in 3 s')}", "the picture is there")
        return browser.run(f"Boolean({shown})")

    def look_at(what):
        while not press(what):
            pass

    look_at("the pooler")
    expect("pgweir, process" in browser.run("document.querySelector('img.flames').alt"), "its text says what it is")
    for theme in ("dark", "light"):
        browser.theme(theme)
        for size, (width, height, phone) in SIZES.items():
            browser.size(width, height, 2 if phone else 1, phone)
            browser.rest(0.7)
            browser.until(f"document.documentElement.scrollWidth <= {width}", f"the picture on a {size} is no wider than it")
            browser.picture(pathlib.Path(folder) / f"stacks-{size}-{theme}.png")
    browser.size(1440, 900)
    browser.run("[...document.querySelectorAll('main button')].find((one) => one.textContent === 'Close').click()")
    expect(browser.run(f"!document.querySelector('img.flames').checkVisibility() && document.activeElement === {button}"), "it is closed")
    browser.run("location.hash = 'clients'")
    row = "[...document.querySelectorAll('tr.opens')].find((row) => row.textContent.includes('steady'))"
    browser.until(row)
    browser.run(f"{row}.click()")
    browser.until(f"document.querySelector('main h1')?.textContent.startsWith('Client #') && {button} && !{button}.hidden", "its backend is on this machine")
    look_at("the backend of client #")
    browser.picture(pathlib.Path(folder) / "stacks-of-a-backend.png")
    stop.set()
    for worker in workers:
        worker.join(300)
    # Alone, under its own policy: its colours are there, and it stays a picture.
    picture = browser.run("document.querySelector('a[href^=\"/stacks/\"]').href")
    browser.open(picture)
    fill = browser.run("document.documentElement.tagName + ' ' + getComputedStyle(document.querySelector('.paper')).fill")
    expect(fill == "svg rgb(255, 255, 255)", f"it has its own styles: {fill}")
    browser.picture(pathlib.Path(folder) / "stacks-alone.png")
    browser.open(f"{url}/")
    browser.until("document.querySelector('.figures .figure')")


def blind(browser, url, user, password, pooler, folder):
    """What needs no observer is there, and what does says so."""
    with psycopg.connect(pooler, application_name="unseen") as connection:
        connection.execute("select 1")
        log_in(browser, url, user, password, "document.querySelector('main .empty')")
        browser.events = [event for event in browser.events if "401" not in str(event)]
        browser.until("document.querySelector('main').innerText.includes('Nobody looks.') && document.querySelector('main').innerText.includes('observe_interval')")
        browser.picture(pathlib.Path(folder) / "now-blind.png")
        for view in VIEWS:
            browser.run(f"location.hash = '{view}'")
            browser.until(f"document.querySelector('nav [aria-current]')?.hash === '#{view}'")
            browser.rest(1.3)
            browser.until("document.getElementById('state').textContent === ''", f"{view} has no complaint")
        browser.until("[...document.querySelectorAll('td')].some((cell) => cell.textContent.includes('unseen'))", "clients are listed")
        browser.run("[...document.querySelectorAll('tr.opens')].find((row) => row.textContent.includes('unseen')).click()")
        browser.until("document.querySelector('main').innerText.includes('Connected since')", "a client's facts are there")
        expect(not browser.complaints(), f"the browser complains: {browser.complaints()}")
    print("the page without an observer is as it should be")


def held(browser, url, user, password, folder, words):
    """A database that cannot be written to is said first, and its hosts are there."""
    log_in(browser, url, user, password, "document.querySelector('[aria-label=Hosts]')")
    browser.events = [event for event in browser.events if "401" not in str(event)]
    browser.until(f"document.querySelector('[aria-label=Verdict] p.note')?.textContent.startsWith('{words}')", "the verdict begins with it")
    browser.until("document.querySelectorAll('[aria-label=Hosts] tbody tr').length === 2", "both hosts are there")
    for theme in ("light", "dark"):
        browser.theme(theme)
        for size, (width, height, phone) in SIZES.items():
            browser.size(width, height, 2 if phone else 1, phone)
            browser.rest(1.3)
            browser.until(f"document.documentElement.scrollWidth <= {width}", f"hosts on a {size} are no wider than it")
            expect(browser.run("document.querySelector('[aria-label=Hosts]').checkVisibility()"), "hosts are shown")
            browser.picture(pathlib.Path(folder) / f"held-{size}-{theme}.png")
    expect(not browser.complaints(), f"the browser complains: {browser.complaints()}")
    print("hosts are as they should be")


def keys(browser):
    browser.press("?")
    browser.until("document.querySelector('#help[open]')")
    browser.press("Escape")
    browser.until("!document.querySelector('#help[open]')")
    browser.press("4")
    browser.until("location.hash === '#holders' && document.querySelector('main').innerText.includes('idle in transaction')")
    theme = browser.run("document.documentElement.dataset.theme")
    browser.press("t")
    browser.until(f"document.documentElement.dataset.theme !== '{theme}'")
    browser.press("t")
    browser.until(f"document.documentElement.dataset.theme === '{theme}'")
    # From here on the system's choice counts again.
    browser.run("localStorage.removeItem('pgweir-theme')")


def main(chromium, url, user, password, pooler, folder, mode="whole", words=""):
    if mode == "held":
        with Browser(chromium) as browser:
            browser.size(1440, 900)
            browser.theme("light")
            return held(browser, url, user, password, folder, words)
    if mode == "blind":
        with Browser(chromium) as browser:
            browser.size(1440, 900)
            browser.theme("light")
            return blind(browser, url, user, password, pooler, folder)
    traffic = Traffic(pooler)
    with Browser(chromium) as browser:
        browser.size(1440, 900)
        browser.theme("light")
        log_in_without_scripts(browser, url, user, password)
        log_in(browser, url, user, password)
        # The refused login is an answer of 401, which browsers complain about.
        browser.events = [event for event in browser.events if "401" not in str(event)]
        look_at_scripts(browser)
        click_on_a_moment(browser, folder)
        look_at_locks(browser)
        look_at_whose(browser)
        look_at_texts(browser)
        go_about(browser)
        cancel_a_query(browser, traffic)
        look_into(browser, folder, url, traffic)
        keys(browser)
        show_all(browser, folder)
        foreign = [asked for asked in browser.requests() if not asked.startswith((url, "data:", "about:"))]
        expect(not foreign, f"requests left the machine: {foreign}")
        # On a busy machine a second may have no look; the page shows that it knows nothing of it, by an answer of 404.
        complaints = [said for said in browser.complaints() if not ("404" in said and "/api/moment?" in said)]
        expect(not complaints, f"the browser complains: {complaints}")
        browser.size(1440, 900)
        browser.run("document.getElementById('leave').click()")
        browser.until("location.pathname === '/login'")
        browser.open(f"{url}/")
        browser.until("location.pathname === '/login'", "it is logged out")
    traffic.end()
    print("the page is as it should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
