"""A port in front of the database that opens and closes, as a server that is up and down."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

from .process_tree import database_url


class Forwarder:
    """Listens on a loopback port of its own and passes bytes on to the database."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        target = urlsplit(database_url())
        query = parse_qs(target.query)
        self._host, self._target_port = query["host"][0], query.get("port", ["5432"])[0]
        self.url = target._replace(query=f"host=127.0.0.1&port={self.port}").geturl()

    def run(self) -> None:
        self._loop.run_forever()

    def open(self) -> None:
        asyncio.run_coroutine_threadsafe(self._open_door(), self._loop).result(10)

    def close(self) -> None:
        """Refuse new connections and break those there are."""
        asyncio.run_coroutine_threadsafe(self._close_door(), self._loop).result(10)

    def end(self) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _open_door(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _close_door(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._host.startswith("/"):
            path = f"{self._host}/.s.PGSQL.{self._target_port}"
            back, forth = await asyncio.open_unix_connection(path)
        else:
            back, forth = await asyncio.open_connection(self._host, int(self._target_port))
        pair = {writer, forth}
        self._open |= pair
        await asyncio.gather(_pass_on(reader, forth), _pass_on(back, writer))
        self._open -= pair


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def forwarder() -> Iterator[Forwarder]:
    """A forwarder that is closed at first."""
    door = Forwarder()
    thread = threading.Thread(target=door.run, name="forwarder")
    thread.start()
    try:
        yield door
    finally:
        door.end()
        thread.join(10)
