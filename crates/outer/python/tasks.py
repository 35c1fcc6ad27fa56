"""Twelve sessions at once as tasks of asyncio; the rest is as in sessions.py."""

import asyncio
import traceback

from sessions import PATIENCE_S, SESSIONS, Different, place, words


def in_step(talk):
    """Runs `await talk(number, step)` for each session; `await step()` returns when all are there."""

    async def everybody():
        barrier = asyncio.Barrier(SESSIONS)

        async def step():
            async with asyncio.timeout(PATIENCE_S):
                await barrier.wait()

        await _together([talk(number, step) for number in range(SESSIONS)])

    asyncio.run(everybody())


def at_once(talk):
    """Runs `await talk(number)` for each session."""

    async def everybody():
        await _together([talk(number) for number in range(SESSIONS)])

    asyncio.run(everybody())


async def _together(talks):
    tasks = [asyncio.ensure_future(talk) for talk in talks]
    done, pending = await asyncio.wait(tasks, timeout=PATIENCE_S, return_when=asyncio.FIRST_EXCEPTION)
    failed = [(number, task) for number, task in enumerate(tasks) if task in done and task.exception()]
    hanging = [(number, task) for number, task in enumerate(tasks) if task in pending]
    if failed:
        number, error = failed[0][0], failed[0][1].exception()
        raise Different(f"session {number}, {place(traceback.extract_tb(error.__traceback__))}: {words(error)}") from error
    if hanging:
        number, task = hanging[0]
        frame = task.get_stack()[-1]
        raise Different(f"{len(hanging)} of {SESSIONS} sessions hang, session {number} at line {frame.f_lineno}")


async def raises(kind, what, awaitable):
    """That it fails with this exception, which is returned."""
    try:
        got = await awaitable
    except kind as error:
        return error
    except Exception as error:
        raise Different(f"{what}: got {error!r}, expected {kind.__name__}") from error
    raise Different(f"{what}: got {got!r}, expected {kind.__name__}")
