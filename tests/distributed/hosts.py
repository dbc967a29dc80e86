"""Hosts of one machine: network namespaces, joined by a cable. What runs on one reaches the other over TCP alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Host:
    """A namespace with one network card."""

    name: str
    address: str

    @property
    def card(self) -> str:
        """The card's name, for GLOO_SOCKET_IFNAME."""
        return f"{self.name}c"

    def start(self, *command: str, **environment: str) -> subprocess.Popen[str]:
        """Starts a program on the host."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OPENREG_")}
        return subprocess.Popen(
            ["ip", "netns", "exec", self.name, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**inherited, "GLOO_SOCKET_IFNAME": self.card, "OMP_NUM_THREADS": "1", **environment},
        )


def _ip(*arguments: str) -> None:
    ran = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {ran.stderr.strip()}")


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two hosts, 10.77.0.1 and 10.77.0.2. Skips the test where the machine does not allow them."""
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need the program ip (Debian: apt-get install iproute2)")
    hosts = tuple(Host(f"or{os.getpid()}h{index}", f"10.77.0.{index + 1}") for index in range(2))
    with contextlib.ExitStack() as stack:
        try:
            for host in hosts:
                names = Path("/etc/netns", host.name)  # over /etc on this host: there is no server to ask for names
                names.mkdir(parents=True)
                stack.callback(shutil.rmtree, names)
                (names / "hosts").write_text(
                    "127.0.0.1 localhost\n" + "".join(f"{h.address} {h.name}\n" for h in hosts)
                )
                _ip("netns", "add", host.name)
                stack.callback(_ip, "netns", "delete", host.name)  # and its end of the cable with it
            first, second = hosts
            _ip(
                "link",
                "add",
                first.card,
                "netns",
                first.name,
                "type",
                "veth",
                "peer",
                second.card,
                "netns",
                second.name,
            )
            for host in hosts:
                _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", host.card)
                _ip("-n", host.name, "link", "set", host.card, "up")
                _ip("-n", host.name, "link", "set", "lo", "up")
        except OSError as error:
            pytest.skip(f"this machine does not allow network namespaces: {error}")
        yield first, second
