"""Twelve sessions at once and the checks they go through: what the programs of all Python drivers share.

A program is called with a connection's URL and, if not all checks are wanted, their names, or the names of those that are not, each
behind a minus. It prints a line a check and ends with the first difference: its status is 1, its last line begins with
`DIFFERENT` and says what was got and expected.

A check is true of a direct connection, so whoever runs it against PostgreSQL proves the check, and whoever runs it through
a pooler proves the pooler. Sessions run in threads:

* `in_step`: all finish a step before anybody begins the next, so that through a pool of few servers the transactions of
  one session come to lie on different ones. Only for state that needs no server of its own while the session rests.
* `at_once`: everybody at full speed. For temporary tables, locks and the like: with a pooler, a session that has such a
  thing may keep a server until it has not, and so would wait for ever for others to finish a step.
"""

import faulthandler
import os
import sys
import threading
import time
import traceback

SESSIONS = 12
# Whoever waits longer waits for ever.
PATIENCE_S = 300

CHECKS = {}


class Different(Exception):
    """Something is not as a direct connection shows it."""


def same(got, expected, what):
    if got != expected:
        raise Different(f"{what}: got {got!r}, expected {expected!r}")


def raises(kind, what, call, *arguments):
    """That the call fails with this exception, which is returned."""
    try:
        got = call(*arguments)
    except kind as error:
        return error
    except Exception as error:
        raise Different(f"{what}: got {error!r}, expected {kind.__name__}") from error
    raise Different(f"{what}: got {got!r}, expected {kind.__name__}")


def check(function):
    CHECKS[function.__name__] = function
    return function


class Step:
    """Called by each session at the end of a step: returns when all are there."""

    def __init__(self):
        self.barrier = threading.Barrier(SESSIONS)

    def __call__(self):
        self.barrier.wait(PATIENCE_S)

    def give_up(self):
        self.barrier.abort()


def in_step(talk):
    """Runs `talk(number, step)` for each session."""
    step = Step()
    _run(lambda number: talk(number, step), step.give_up)


def at_once(talk):
    """Runs `talk(number)` for each session."""
    _run(talk, lambda: None)


def _run(talk, give_up):
    failures = []

    def session(number):
        try:
            talk(number)
        except threading.BrokenBarrierError:
            pass  # Somebody else has failed, or hangs and is found below.
        except Exception as error:
            failures.append((number, error))
            give_up()

    threads = [threading.Thread(target=session, args=(number,), daemon=True) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PATIENCE_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()) if not failures else 1.0)
    hanging = [(number, thread) for number, thread in enumerate(threads) if thread.is_alive()]
    if failures:
        number, error = failures[0]
        raise Different(f"session {number}, {place(traceback.extract_tb(error.__traceback__))}: {words(error)}") from error
    if hanging:
        number, thread = hanging[0]
        stack = traceback.extract_stack(sys._current_frames()[thread.ident])
        raise Different(f"{len(hanging)} of {SESSIONS} sessions hang, session {number} {place(stack)}")


def words(error):
    return str(error) if isinstance(error, Different) else f"{type(error).__module__}.{type(error).__name__}: {error}"


def place(stack):
    """Where in a check it was: the innermost line that is in a program and in no module that several share."""
    here = os.path.dirname(__file__)
    shared = [os.path.join(here, name) for name in ("sessions.py", "tasks.py", "through_psycopg.py")]
    frames = [frame for frame in stack if os.path.dirname(frame.filename) == here and frame.filename not in shared]
    frame = frames[-1] if frames else stack[-1]
    return f"at line {frame.lineno} `{frame.line}`"


def eventually(what, is_so):
    """Waits for what another connection does without telling: its end, for example."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise Different(f"after {PATIENCE_S} s still not so: {what}")
        time.sleep(0.01)


def main(name, prepare):
    """Runs `prepare(url)` once, then the checks that the command line asks for."""
    faulthandler.dump_traceback_later(1800, exit=True)
    url, named = sys.argv[1], sys.argv[2:]
    if unknown := [word for word in named if word.removeprefix("-") not in CHECKS]:
        sys.exit(f"no such check: {unknown}; there are {list(CHECKS)}")
    wanted = [word for word in named if word in CHECKS] or [word for word in CHECKS if f"-{word}" not in named]
    prepare(url)
    for word in wanted:
        begun = time.monotonic()
        try:
            CHECKS[word]()
        except Exception as error:
            print(f"DIFFERENT {word}: {words(error)}", flush=True)
            # Threads that hang in the driver would keep an orderly end waiting.
            faulthandler.cancel_dump_traceback_later()
            os._exit(1)
        print(f"same {word} {time.monotonic() - begun:.2f} s", flush=True)
    print(f"{name}: {len(wanted)} checks, {SESSIONS} sessions")
