"""Forks before the device is started, while another thread is starting it, and afterwards; uses it in each child."""

from __future__ import annotations

import os
import threading
import time
import warnings

import torch

from torch_openreg.openreg import _lazy

warnings.simplefilter("ignore", DeprecationWarning)  # from os.fork since Python 3.12: there are threads

# LITERALINCLUDE START: autoload-fork
entered = threading.Event()


def slow_call() -> None:
    """Makes the start of the device take a while."""
    entered.set()
    time.sleep(0.2)


def is_locked() -> bool:
    """Whether another thread would wait for the lock."""
    found = []

    def ask() -> None:
        found.append(_lazy._lock.acquire(blocking=False))
        if found[0]:
            _lazy._lock.release()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return not found[0]


def in_a_child(when: str) -> None:
    """Seeds and uses the device in a forked process."""
    if (child := os.fork()) == 0:
        print(f"forked {when} the start", flush=True)
        print("   in a bad fork:", torch.openreg._is_in_bad_fork(), "locked:", is_locked(), flush=True)
        for use in (lambda: torch.openreg.manual_seed(1), lambda: torch.ones(2, device="openreg").tolist()):
            try:
                print("  ", use(), flush=True)
            except RuntimeError as error:
                print("  ", str(error).partition(":")[0], flush=True)
        print("   initialized:", torch.openreg.is_initialized(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)


def main() -> None:
    """Forks three times."""
    in_a_child("before")
    _lazy._lazy_call(slow_call)
    thread = threading.Thread(target=torch.openreg.init)
    thread.start()
    entered.wait()
    in_a_child("during")
    thread.join()
    in_a_child("after")
    print("the parent goes on:", torch.ones(2, device="openreg").tolist())


# LITERALINCLUDE END: autoload-fork

if __name__ == "__main__":
    main()
