"""Queues three calls for the start of the device, the second of which fails, while two other threads use the device."""

from __future__ import annotations

import threading

import torch

from torch_openreg.openreg import _lazy

# LITERALINCLUDE START: autoload-queue
entered, almost = threading.Event(), threading.Event()
told: list[str] = []


def first() -> None:
    """Takes a while, during which another thread tries to use the device."""
    entered.set()
    other.join(0.2)
    told.append(f"the first call was made, and the other thread {'waits' if other.is_alive() else 'went past it'}")


def second() -> None:
    """Fails."""
    raise ValueError("no such seed")


def third() -> None:
    """Uses the device while it is being started and another thread makes one more call."""
    torch.openreg.init()
    _lazy._lazy_call(lambda: told.append("the third call was made, and what it queues does not wait"))
    almost.set()
    late.join(0.2)


def use() -> None:
    """Uses the device as soon as its start has begun."""
    entered.wait()
    torch.ones(1, device="openreg")
    told.append("the other thread has its tensor")


def call_late() -> None:
    """Makes a call that waits only for the lock."""
    almost.wait()
    _lazy._lazy_call(lambda: told.append(f"the late call was made, initialized: {torch.openreg.is_initialized()}"))


other, late = threading.Thread(target=use), threading.Thread(target=call_late)


def main() -> None:
    """Queues the calls, uses the device until that succeeds, and prints what happened."""
    other.start()
    late.start()
    for call in (first, second, third):
        _lazy._lazy_call(call)
    try:
        torch.openreg.init()
    except ValueError as error:
        note = error.__notes__[0].splitlines()
        told.append(f"the first use failed: {error}. {note[0]} ... {note[-1].strip()}")
    torch.openreg.init()
    other.join()
    late.join()
    print("\n".join(sorted(told)))
    print("initialized:", torch.openreg.is_initialized(), "waiting:", _lazy._queued)
    _lazy._lazy_call(lambda: print("a call waits for nothing any more"))


# LITERALINCLUDE END: autoload-queue

if __name__ == "__main__":
    main()
