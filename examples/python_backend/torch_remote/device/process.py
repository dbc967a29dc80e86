"""The process that is a device: streams, each a queue and a thread; events; and the commands from the host.

It ends when the other end of the socket is closed, for whatever reason.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pickle
import queue
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import torch

from . import wire
from .channel import Channel
from .memory import Memory
from .wire import Layout, Place

# An operator that draws uses one step of the seed's sequence; the size of a step keeps neighboring seeds apart.
STEP = 0x9E3779B97F4A7C15
_default_generator = threading.Lock()
Random = tuple[int, int] | None
Reply = Callable[[], object] | None
Task = Callable[[], Reply]


# LITERALINCLUDE START: remote-kernel
class DefaultDtype:
    """The default dtype of the process, which is that of all streams: it changes while none runs a kernel."""

    def __init__(self) -> None:
        self.turn = threading.Condition()
        self.running = 0

    @contextlib.contextmanager
    def set_to(self, dtype: torch.dtype) -> Iterator[None]:
        """Runs the block with this one. Waits for kernels that need another."""
        with self.turn:
            self.turn.wait_for(lambda: not self.running or torch.get_default_dtype() == dtype)
            torch.set_default_dtype(dtype)
            self.running += 1
        try:
            yield
        finally:
            with self.turn:
                self.running -= 1
                self.turn.notify_all()


_default_dtype = DefaultDtype()


class Kernel:
    """One call of an operator, read in the process that has the memory."""

    device = torch.device("cpu")

    def __init__(self, memory: Memory, places: list[Place], random: Random) -> None:
        self.memory = memory
        self.places = places
        self.generator: torch.Generator | None = None
        self.seed: int | None = None
        self.tensors: dict[int, torch.Tensor] = {}
        if random is not None:
            self.seed = (random[0] + STEP * random[1]) % (1 << 63)
            self.generator = torch.Generator().manual_seed(self.seed)

    def tensor(self, number: int, layout: Layout) -> torch.Tensor:
        """The argument with a number."""
        self.tensors[number] = found = self.memory.tensor(self.places[number], layout)
        return found

    def run(self, body: bytes, buffers: list[memoryview]) -> tuple[Any, list[torch.Tensor], list[Layout]]:
        """Calls the operator. Returns its results, its tensor arguments, and their layouts before the call."""
        name, args, kwargs, default = wire.read(body, self, buffers)
        given = [self.tensors[number] for number in sorted(self.tensors)]
        before = [wire.layout(tensor) for tensor in given]
        called = wire.operator(name)
        names = [argument.name for argument in called._schema.arguments]
        if "generator" in names[len(args) :]:
            kwargs = {**kwargs, "generator": self.generator}
        with _default_dtype.set_to(default):  # the host's: results of integers have it
            if self.seed is None or "generator" in names:
                return called(*args, **kwargs), given, before
            with _default_generator:  # such operators draw from the generator of the process
                torch.default_generator.manual_seed(self.seed)
                return called(*args, **kwargs), given, before


# LITERALINCLUDE END: remote-kernel


# LITERALINCLUDE START: remote-stream
class Stream:
    """A queue, and the thread that runs its tasks in order.

    A task returns its reply, which is called after the task is counted as done: its receiver finds the stream idle.
    """

    def __init__(self, fail: Callable[[BaseException], None]) -> None:
        self.tasks: queue.SimpleQueue[Task] = queue.SimpleQueue()
        self.queued = self.done = 0  # the caller counts the first, the thread the second
        self.fail = fail
        threading.Thread(target=self._work, daemon=True).start()

    def put(self, task: Task) -> None:
        """Queues a task."""
        self.queued += 1
        self.tasks.put(task)

    def _work(self) -> None:
        torch.set_grad_enabled(False)  # of this thread
        while True:
            reply = None
            try:
                reply = self.tasks.get()()
            except BaseException as error:  # an operator may raise anything
                self.fail(error)
            self.done += 1
            if reply is not None:
                reply()


# LITERALINCLUDE END: remote-stream


class Device:
    """The state of the process."""

    def __init__(self, channel: Channel, lost: int) -> None:
        self.channel = channel
        self.memory = Memory(lost)
        self.streams: dict[int, Stream] = {}
        self.events: dict[int, Future[float]] = {}
        self.asked: dict[int, tuple[Any, list[torch.Tensor]]] = {}
        self.failure: BaseException | None = None

    # LITERALINCLUDE START: remote-serve
    def serve(self) -> None:
        """Reads commands until the connection is closed. Work for a stream goes into its queue."""
        while True:
            try:
                (name, *arguments), buffers = self.channel.receive()
            except (EOFError, ConnectionError):
                return
            getattr(self, name)(*arguments, *([buffers] if buffers else []))

    def _queue(self, stream: int, task: Task) -> None:
        if stream not in self.streams:
            self.streams[stream] = Stream(self._fail)
        self.streams[stream].put(task)

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or error  # the first one is kept until the host waits

    def _when_all_have_passed(self, action: Task) -> None:
        """Runs an action when each stream has reached the current end of its queue."""
        if not self.streams:
            self._queue(0, action)
            return
        left = itertools.count(len(self.streams) - 1, -1)
        for stream in self.streams.values():
            stream.put(lambda: None if next(left) else action())

    # LITERALINCLUDE END: remote-serve

    # LITERALINCLUDE START: remote-reply
    def _answer(self, ticket: int, make: Callable[[], Any]) -> Callable[[], None]:
        """Makes the answer to a question, or takes an error not yet reported. Returns a function that sends it."""
        made: Any = None
        error, self.failure = self.failure, None
        if error is None:
            try:
                made = make()
            except BaseException as raised:
                error = raised
        return functools.partial(self._tell, ticket, made, error)

    def _tell(self, ticket: int, made: Any, error: BaseException | None) -> None:
        """Sends an answer."""
        try:
            if error is None:
                value, buffers = (made.body, made.buffers) if isinstance(made, wire.Call) else (made, ())
                self.channel.send((ticket, value, None), buffers)
                return
        except BaseException as raised:  # such as no shared memory left
            error = raised
        self.channel.send((ticket, None, portable(error)))

    # LITERALINCLUDE END: remote-reply

    # LITERALINCLUDE START: remote-run
    def run(
        self,
        stream: int,
        body: bytes,
        places: list[Place],
        new: list[tuple[int, Layout]],
        random: Random,
        buffers: list[memoryview] | None = None,
    ) -> None:
        """Runs an operator whose result layouts the host has foreseen, so the results have addresses already."""

        def task() -> None:
            results, given, _ = Kernel(self.memory, places, random).run(body, buffers or [])
            self._put(new, results, given)

        self._queue(stream, task)

    def ask(
        self,
        ticket: int,
        stream: int,
        number: int,
        body: bytes,
        places: list[Place],
        random: Random,
        buffers: list[memoryview] | None = None,
    ) -> None:
        """Runs an operator and sends its result layouts. The results are kept until the host sends their addresses."""

        def made() -> wire.Outcome:
            results, given, before = Kernel(self.memory, places, random).run(body, buffers or [])
            found = wire.outcome(results, given, before)
            if wire.new_tensors(found.results) and not found.resized:
                self.asked[number] = results, given
            return found

        self._queue(stream, lambda: self._answer(ticket, made))

    def place(self, stream: int, number: int, new: list[tuple[int, Layout]]) -> None:
        """Puts the results of ``ask`` at their addresses."""
        self._queue(stream, lambda: self._put(new, *self.asked.pop(number)))

    def forget(self, stream: int, number: int) -> None:
        """Drops the results of ``ask``, whose caller was interrupted."""

        def task() -> None:  # NOT PROVEN: tests/test_process.py interrupts a caller
            self.asked.pop(number, None)  # NOT PROVEN: as above

        self._queue(stream, task)  # NOT PROVEN: as above

    def _put(self, new: list[tuple[int, Layout]], results: Any, given: list[torch.Tensor]) -> None:
        taken = {tensor.untyped_storage().data_ptr() for tensor in given}
        fresh = (one for one in leaves(results) if not any(one is argument for argument in given))
        for (address, layout), result in zip(new, fresh, strict=True):
            storage = result.untyped_storage().data_ptr()
            self.memory.put(address, layout, result, is_shared=storage in taken)
            taken.add(storage)

    # LITERALINCLUDE END: remote-run

    def fetch(self, ticket: int, stream: int, body: bytes, places: list[Place]) -> None:
        """Sends the values of a tensor."""

        def made() -> wire.Call:
            tensor = wire.read(body, Kernel(self.memory, places, None))
            return wire.write(tensor.clone(memory_format=torch.contiguous_format))

        self._queue(stream, lambda: self._answer(ticket, made))

    def move(self, stream: int, to: int, source: int, nbytes: int) -> None:
        """Copies bytes from one address to another."""
        self._queue(stream, lambda: self.memory.move(to, source, nbytes))

    def free(self, addresses: list[int]) -> None:
        """Frees events and memory that the host no longer uses, once no queue does."""
        for address in addresses:
            self.events.pop(address, None)
        self._when_all_have_passed(lambda: self.memory.free(addresses))

    def sleep(self, stream: int, seconds: float) -> None:
        """Keeps a stream busy."""
        self._queue(stream, lambda: time.sleep(seconds))

    # LITERALINCLUDE START: remote-events
    def record(self, stream: int, event: int) -> None:
        """The event passes when the stream gets to this point."""
        passed = self.events[event] = Future()

        def task() -> Reply:
            now = time.perf_counter()
            return lambda: passed.set_result(now)

        self._queue(stream, task)

    def wait(self, stream: int, event: int) -> None:
        """The stream waits for the event as it is recorded now."""
        passed = self.events.get(event)
        if passed is None:
            return  # lost in a reset: nothing to wait for

        def task() -> None:
            passed.result()

        self._queue(stream, task)

    def query_event(self, ticket: int, event: int) -> None:
        """Answers whether an event has passed."""
        is_passed = event not in self.events or self.events[event].done()
        self.channel.send((ticket, is_passed, None))

    def synchronize_event(self, ticket: int, event: int) -> None:
        """Answers when an event has passed."""
        passed = self.events.get(event)
        if passed is None:
            self._answer(ticket, lambda: None)()
        else:
            passed.add_done_callback(lambda _: self._answer(ticket, lambda: None)())

    def elapsed_time(self, ticket: int, start: int, end: int) -> None:
        """Sends the milliseconds between two events that have passed."""
        self._answer(ticket, lambda: 1000 * (self.events[end].result() - self.events[start].result()))()

    # LITERALINCLUDE END: remote-events

    def query_stream(self, ticket: int, stream: int) -> None:
        """Answers whether a stream has nothing left to do."""
        is_idle = stream not in self.streams or self.streams[stream].queued == self.streams[stream].done
        self.channel.send((ticket, is_idle, None))

    def synchronize_stream(self, ticket: int, stream: int) -> None:
        """Answers when a stream has done all work in its queue."""
        self._queue(stream, lambda: self._answer(ticket, lambda: None))

    def synchronize(self, ticket: int) -> None:
        """Answers when all streams have."""
        self._when_all_have_passed(lambda: self._answer(ticket, lambda: None))


def leaves(results: Any) -> list[torch.Tensor]:
    """The tensors among results."""
    if isinstance(results, list | tuple):
        return [leaf for one in results for leaf in leaves(one)]
    return [results] if isinstance(results, torch.Tensor) else []


# LITERALINCLUDE START: remote-portable
def portable(error: BaseException) -> tuple[bytes, str]:
    """An exception in a form that can be sent: its type and arguments, and the traceback as text."""
    text = "".join(traceback.format_exception(error))
    try:
        packed = pickle.dumps((type(error), error.args))
        pickle.loads(packed)
    # The class cannot be pickled: the message is what matters.
    except Exception:  # NOT PROVEN: no operator of PyTorch raises such a class
        packed = pickle.dumps((RuntimeError, (f"{type(error).__name__}: {error}",)))  # NOT PROVEN: as above
    return packed, text


# LITERALINCLUDE END: remote-portable


def main() -> None:
    """Serves the host until it is gone. Arguments: the socket, and the first address that was not lost."""
    Device(Channel(socket.socket(fileno=int(sys.argv[1]))), int(sys.argv[2])).serve()
    os._exit(0)  # whatever the streams are doing
