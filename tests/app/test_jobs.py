"""Work in processes that can be killed."""

import asyncio
import os
import time

import psutil
import pytest

from sparsect.app.jobs import Jobs, Started, Waiting
from sparsect.backend.checks import InputError

pytestmark = pytest.mark.slow
PATIENCE = 120


def count(send, upto):
    for number in range(upto):
        send(number)


def tell_process_and_sleep(send):
    send(os.getpid())
    time.sleep(10 * PATIENCE)


def refuse(send):
    raise InputError("`m` must be 1, got 2.")


def stumble(send):
    raise ZeroDivisionError("by nothing")


def vanish(send):
    os._exit(3)


def with_jobs(test, workers=1):
    """Run an asynchronous test with a queue."""

    async def run():
        jobs = Jobs(workers)
        jobs.start()
        try:
            await asyncio.wait_for(test(jobs), PATIENCE)
        finally:
            jobs.close()

    asyncio.run(run())


async def collected(job):
    return [message async for message in job.messages()]


def test_messages_arrive_in_order_and_the_worker_is_used_again():
    async def test(jobs):
        for _ in range(2):
            job = jobs.submit(count, upto=3)
            messages = await collected(job)
            assert [one for one in messages if isinstance(one, int)] == [0, 1, 2]
            assert job.ended == "done"
        assert (jobs.running, jobs.waiting) == (0, 0)

    with_jobs(test)


def test_a_stopped_job_is_killed_and_the_next_one_runs():
    async def test(jobs):
        job, after = jobs.submit(tell_process_and_sleep), jobs.submit(count, upto=1)
        async for message in job.messages():
            if isinstance(message, int):
                process = psutil.Process(message)
                assert jobs.running == 1
                job.stop()
        assert job.ended == "stopped"
        process.wait(PATIENCE)
        assert 0 in await collected(after)
        assert after.ended == "done"

    with_jobs(test)


def test_jobs_wait_for_a_worker_are_told_how_many_are_ahead_and_can_leave_the_queue():
    async def test(jobs):
        first = jobs.submit(tell_process_and_sleep)
        async for message in first.messages():
            if isinstance(message, int):
                break
        second, third = jobs.submit(count, upto=1), jobs.submit(count, upto=1)
        assert (jobs.running, jobs.waiting) == (1, 2)
        second.stop()
        assert (jobs.running, jobs.waiting) == (1, 1)
        first.stop()
        assert [one for one in await collected(second) if isinstance(one, Started)] == []
        messages = await collected(third)
        assert messages[:2] == [Waiting(1), Waiting(0)]
        assert messages[-1] == 0

    with_jobs(test)


@pytest.mark.parametrize(
    ("work", "words"),
    [(refuse, "`m` must be 1, got 2."), (stumble, "ZeroDivisionError: by nothing"), (vanish, "The process that did")],
)
def test_work_that_fails_says_why_and_others_go_on(work, words):
    async def test(jobs):
        job = jobs.submit(work)
        await collected(job)
        assert job.ended == "failed"
        assert job.error.startswith(words)
        assert 0 in await collected(jobs.submit(count, upto=1))

    with_jobs(test)


def test_closing_ends_the_processes():
    processes = []

    async def test(jobs):
        async for message in jobs.submit(tell_process_and_sleep).messages():
            if isinstance(message, int):
                processes.append(psutil.Process(message))
                return

    with_jobs(test)
    processes[0].wait(PATIENCE)
