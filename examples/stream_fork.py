"""Uses a stream and an event in a child that was forked after its parent had made them.

python examples/stream_fork.py 'stream.query()' 'event.query()'
"""

from __future__ import annotations

import os
import sys
import warnings

import torch

warnings.simplefilter("ignore", DeprecationWarning)  # from os.fork since Python 3.12: the driver has threads


def main() -> None:
    """Makes the calls of the command line in the child, which then destroys the event."""
    stream = torch.Stream("openreg")
    names = {"torch": torch, "stream": stream, "event": stream.record_event()}
    child = os.fork()
    if child == 0:
        for call in sys.argv[1:]:
            try:
                print(f"{call}\n    returns {eval(call, names)}", flush=True)
            except RuntimeError as error:
                print(f"{call}\n    {error}", flush=True)
        names.clear()  # destroys the event
        os._exit(0)
    os.waitpid(child, 0)
    names["event"].synchronize()
    print("in the parent, the event has passed:", names["event"].query())


if __name__ == "__main__":
    main()
