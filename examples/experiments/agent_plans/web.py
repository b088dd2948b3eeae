"""Web: a shop that takes bookings and forms, as a state machine and as pages in real Chromium."""

import shutil
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
from plans import Rates, verb
from playwright.sync_api import Error, sync_playwright

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
# Items of each kind with the words that find several; their numbers, from 1, are their addresses.
CATALOGUE = {
    "rooms": {"Blue": "view", "Garden": "quiet", "Attic": "quiet", "Tower": "view"},
    "events": {"Opera": "music", "Derby": "family", "Circus": "family", "Ballet": "music"},
    "forms": {"Refund": "order", "Address": "account", "Complaint": "order", "News": "account"},
}
FIELDS = {
    "rooms": ("name", "nights", "guests"),
    "events": ("name", "seats"),
    "forms": ("name", "email"),
}
# How often the shop does not answer, by what is asked, and how often items have other numbers.
LOST = {"page": 0.02, "search": 0.04, "form": 0.03, "review": 0.05, "confirm": 0.06, "typing": 0.02}
CHANGED = 0.15


class Visit(NamedTuple):
    """The heading of the page that is open, what its fields hold, and what was booked."""

    page: str
    fields: tuple[str, ...]
    booked: tuple[tuple[str, ...], ...]
    changed: bool = False


def kind_of(item):
    return next(kind for kind, items in CATALOGUE.items() if item in items)


def hits(word):
    """Return the items that a search lists."""
    return [
        item
        for kind, items in CATALOGUE.items()
        for item, tag in items.items()
        if word in (item, tag, kind)
    ]


def item_at(path, *, changed):
    """Return the item of an address such as /rooms/2, or None."""
    parts = path.strip("/").split("/")
    items = list(CATALOGUE.get(parts[0], ()))
    number = int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
    return items[(number - 1 + changed) % len(items)] if 0 < number <= len(items) else None


def address(item, *, changed=False):
    items = list(CATALOGUE[kind_of(item)])
    return f"/{kind_of(item)}/{(items.index(item) - changed) % len(items) + 1}"


@dataclass(frozen=True)
class Shop:
    """The state machine of the shop.

    ``open /rooms/2`` and ``open /rooms/2/book`` are deep links; ``search Blue`` opens what alone it
    finds, and ``click Blue`` what it lists; ``book``, ``fill name Ada``, ``next``, ``confirm``.
    """

    def start(self, *, changed):
        return Visit("Home", (), (), changed)

    def twin(self, action):
        kind, *given = action.split()
        if kind in ("search", "click") and any(given[0] in items for items in CATALOGUE.values()):
            return f"open {address(given[0])}"
        if kind == "open" and not given[0].endswith("/book"):
            return f"search {item_at(given[0], changed=False)}"
        return None

    def after(self, state, action):
        kind, *given = action.split()
        page, _, item = state.page.partition(" ")
        if kind == "open":
            found = item_at(given[0], changed=state.changed)
            return form(state, found) if given[0].endswith("/book") else shown(state, found)
        if kind == "search":
            found = hits(given[0])
            if len(found) == 1:
                return shown(state, found[0])
            return state._replace(page=f"Results {given[0]}", fields=())
        if kind == "click" and page == "Results" and given[0] in hits(item):
            return shown(state, given[0])
        if kind == "book" and page == "Item":
            return form(state, item)
        if kind == "fill" and page == "Form" and given[0] in FIELDS[kind_of(item)]:
            at = FIELDS[kind_of(item)].index(given[0])
            return state._replace(fields=(*state.fields[:at], given[1], *state.fields[at + 1 :]))
        if kind == "next" and page == "Form" and all(state.fields):
            return state._replace(page=f"Review {item}")
        if kind == "confirm" and page == "Review":
            booked = tuple(sorted((*state.booked, (item, *state.fields))))
            return Visit("Done", (), booked, state.changed)
        return state

    def facts(self, state):
        return state.booked


def shown(state, item):
    return state._replace(page=f"Item {item}" if item else "Missing", fields=())


def form(state, item):
    if not item:
        return shown(state, item)
    return state._replace(page=f"Form {item}", fields=("",) * len(FIELDS[kind_of(item)]))


WORLDS = {"shop": Shop()}

PAGE = """<!doctype html><title>Shop</title><link rel="icon" href="data:,">
<body data-serial="{serial}">
<form action="/search"><input name="q" aria-label="Search"></form><h1>{heading}</h1>{body}
<script>document.addEventListener('input', event => {{
  if (event.target.name === 'q') return;
  const asked = new XMLHttpRequest();
  asked.open('GET', '/typing', false); asked.send();
  if (asked.status === 503) event.target.value = '';
}})</script>"""


class Served:
    """A shop on loopback; one visitor at a time, who begins anew with each run."""

    def __init__(self):
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                served.answer(self, {})

            def do_POST(self):
                length = int(self.headers["Content-Length"])
                served.answer(self, parse_qs(self.rfile.read(length).decode()))

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.answers, self.last_is_lost = 0, False
        self.begin(lost={}, changed=False)

    def begin(self, *, lost, changed):
        self.lost, self.changed, self.booked = lost, changed, []

    def _loses(self, what):
        return what in self.lost and self.rng.random() < self.lost[what]

    def answer(self, request, given):
        url = urlsplit(request.path)
        path, *_, last = url.path, *url.path.rsplit("/", 1)
        what = {"book": "form"}.get(last, last)
        is_lost = self._loses(what if what in LOST else "page")
        if what == "typing":
            self._send(request, 503 if is_lost else 200, "")
            return
        # The browser stays where it is.
        page = "" if is_lost else self._page(path, last, {**parse_qs(url.query), **given})
        self.last_is_lost = is_lost
        self.answers += 1
        self._send(request, 204 if is_lost else 200, page)

    def _send(self, request, status, page):
        content = page.encode()
        request.send_response(status)
        request.send_header("Content-Type", "text/html; charset=utf-8")
        if status != 204:
            request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    def _page(self, path, last, given):
        item = item_at(path, changed=self.changed)
        if path == "/search":
            found = hits(given.get("q", [""])[0])
            if len(found) != 1:
                links = (
                    f'<a href="{address(one, changed=self.changed)}">{one}</a>' for one in found
                )
                return self._html(f"Results {given['q'][0]}", " ".join(links))
            item, last = found[0], ""
        if not item:
            return self._html("Home" if path == "/" else "Missing", "")
        here, fields = address(item, changed=self.changed), FIELDS[kind_of(item)]
        values = [given.get(field, [""])[0] for field in fields]
        if last == "confirm":
            self.booked.append((item, *values))
            return self._html("Done", "")
        if last == "review" and all(values):
            review = asked(f"{here}/confirm", "Confirm", fields, values, "hidden")
            return self._html(f"Review {item}", review)
        if last in ("book", "review"):
            empty = asked(f"{here}/review", "Next", fields, values, "text")
            return self._html(f"Form {item}", empty)
        button = f'<form action="{here}/book"><button>Book</button></form>'
        return self._html(f"Item {item}", button)

    def _html(self, heading, body):
        return PAGE.format(serial=self.answers + 1, heading=escape(heading), body=body)


def asked(action, button, fields, values, kind):
    """Return a form."""
    inputs = "".join(
        f'<input class="field" type="{kind}" name="{field}" value="{escape(value)}">'
        for field, value in zip(fields, values, strict=True)
    )
    return f'<form method="post" action="{action}">{inputs}<button>{button}</button></form>'


# The number of the page, its heading, and what its fields hold.
SEEN = """() => [
  document.readyState == 'complete' && document.body.dataset.serial,
  document.querySelector('h1')?.textContent,
  ...[...document.querySelectorAll('.field')].map(field => field.value)]"""


class RealShop:
    """The same actions on pages of the shop, in a tab of Chromium."""

    def __init__(self, served, page):
        self._served, self._page = served, page

    def begin(self, *, lost, changed, seed):
        """Go to the first page, which is never lost."""
        self._served.begin(lost={}, changed=changed)
        self._asks(lambda: self._page.goto(self._served.url))
        self.loses(lost, seed=seed)

    def loses(self, lost, *, seed):
        self._served.lost, self._served.rng = lost, np.random.default_rng(seed)

    def state(self):
        _, heading, *fields = self._page.evaluate(SEEN)
        # Which numbers items have is not seen.
        return Visit(heading, tuple(fields), tuple(sorted(self._served.booked)))

    def step(self, action):
        kind, *given = action.split()
        page = self._page
        if kind == "open":
            self._asks(lambda: page.goto(self._served.url + quote(given[0])))
        elif kind == "search":
            page.get_by_label("Search").fill(given[0])
            self._asks(lambda: page.get_by_label("Search").press("Enter"))
        elif kind == "fill":
            box = page.locator(f"input[type=text][name={given[0]}]")
            if box.count():
                box.fill(given[1])
        else:
            role, name = ("link", given[0]) if kind == "click" else ("button", kind.title())
            target = page.get_by_role(role, name=name, exact=True)
            if target.count():
                self._asks(target.click)

    def _asks(self, act):
        """Do what asks the shop for a page, and wait until that is open."""
        before = self._served.answers
        try:
            act()
        except Error:
            if not self._served.last_is_lost:
                raise
        until = time.monotonic() + 30
        while self._served.answers == before or not self._is_open():
            if time.monotonic() > until:
                raise TimeoutError("the page that the shop was asked for did not open")

    def _is_open(self):
        if self._served.last_is_lost:
            return True
        try:
            return self._page.evaluate(SEEN)[0] == str(self._served.answers)
        except Error:
            # Asked while one page went and the other came.
            return False


@contextmanager
def browsing():
    """Open the shop in a headless Chromium of this machine."""
    served = Served()
    Thread(target=served.server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER)
        try:
            yield RealShop(served, browser.new_page())
        finally:
            browser.close()
            served.server.shutdown()
            served.server.server_close()


class Step(NamedTuple):
    """One step of a real execution."""

    before: Any
    action: str
    after: Any


def executed(shop, plan, *, seed=None):
    """Return the steps of a plan in the browser, where nothing fails unless there is a seed."""
    changed = seed is not None and np.random.default_rng([seed, 1]).random() < CHANGED
    shop.begin(lost={} if seed is None else LOST, changed=changed, seed=seed)
    states, steps = [shop.state()], []
    for action in plan:
        shop.step(action)
        states.append(shop.state())
        steps.append(Step(states[-2], action, states[-1]))
    return steps


def calibrated(steps):
    """Return how often steps were lost and numbers had changed, from real executions.

    A step is lost where something should have changed and nothing did; half a case is added to
    each side, so that no rate is 0.
    """
    tried, lost = defaultdict(int), defaultdict(int)
    opened = elsewhere = 0
    for step in steps:
        expected = Shop().after(step.before, step.action)
        if expected == step.before:
            continue
        kind = verb(step.action)
        tried[kind] += 1
        if step.after == step.before:
            lost[kind] += 1
        elif kind == "open":
            opened += 1
            elsewhere += step.after != expected
    rates = {kind: (lost[kind] + 0.5) / (count + 1) for kind, count in tried.items()}
    return Rates(lost=rates, changed=(elsewhere + 0.5) / (opened + 1))


def agreement(steps):
    """Return in how many steps the next page was the one that the machine says, of how many."""
    agreed = sum(step.after == Shop().after(step.before, step.action) for step in steps)
    return agreed, len(steps)
