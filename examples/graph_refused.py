"""Steps that a graph cannot contain, and how each is refused."""

from __future__ import annotations

from collections.abc import Callable

import torch

# LITERALINCLUDE START: graph-refused
outside = torch.Event()  # recorded on a stream that is not captured


def unjoined(x: torch.Tensor) -> None:
    """Work of a stream that joins the capture and does not come back."""
    side = torch.Stream()
    side.wait_stream(torch.accelerator.current_stream())
    with side:
        x.add_(1)


def default_stream_joins(x: torch.Tensor) -> None:
    """Lets a default stream wait for captured work."""
    torch.openreg.default_stream().wait_event(torch.accelerator.current_stream().record_event())


def of_an_event(x: torch.Tensor) -> None:
    """Asks whether a recorded event has passed."""
    torch.accelerator.current_stream().record_event().query()


STEPS: dict[str, Callable[[torch.Tensor], object]] = {
    "x[0].item()": lambda x: x[0].item(),
    "x.cpu()": lambda x: x.cpu(),
    "x.copy_(host)": lambda x: x.copy_(torch.ones(2), non_blocking=True),
    "torch.linalg.eigvals(x)": lambda x: torch.linalg.eigvals(x.diag()),
    "synchronize()": lambda x: torch.accelerator.synchronize(),
    "stream.query()": lambda x: torch.accelerator.current_stream().query(),
    "event.query()": of_an_event,
    "wait_event(outside)": lambda x: torch.accelerator.current_stream().wait_event(outside),
    "default stream joins": default_stream_joins,
    "manual_seed(1)": lambda x: torch.openreg.manual_seed(1),
    "empty_cache()": lambda x: torch.accelerator.empty_cache(),
    "a fork without a join": unjoined,
}


def main() -> None:
    """Prints the first error of each step, and whether the device works afterwards."""
    x = torch.ones(2, device="openreg")
    captured = torch.Event()
    with torch.Stream() as stream, torch.accelerator.Graph():
        captured.record(stream)
    outside.record(torch.Stream())
    for name, step in STEPS.items():
        graph = torch.accelerator.Graph()
        try:
            with torch.Stream(), graph:
                step(x + 1)
        except RuntimeError as error:
            first: BaseException = error.__context__ or error
            print(f"{name}: {first}\n")
    try:
        stream.wait_event(captured)
    except RuntimeError as error:
        print(f"an event of a capture that has ended: {error}\n")
    print("afterwards:", (x + 1).tolist())


# LITERALINCLUDE END: graph-refused

if __name__ == "__main__":
    main()
