"""What two ends say to one another, however the bytes are cut."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_durable_jobs.store.ids import new_id
from django_durable_jobs.worker.channel import Channel, Holding, Message, read, written

PATIENCE = 20


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


@given(
    texts=st.lists(st.text(max_size=40), max_size=8),
    cuts=st.lists(st.integers(min_value=1, max_value=60), max_size=30),
)
def test_messages_arrive_whole_and_in_order_however_the_bytes_are_cut(texts, cuts):
    stream = b"".join(json.dumps({"kind": text}).encode() + b"\n" for text in texts)
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    heard: list[str] = []
    for size in [*cuts, len(stream)]:
        piece, stream = stream[:size], stream[size:]
        if piece:
            theirs.sendall(piece)
            heard += [message["kind"] for message in channel.receive()]
    ours.close()
    theirs.close()
    assert heard == texts


def test_a_message_larger_than_any_buffer_arrives(ends):
    ours, theirs = ends
    speaker, hearer = Channel(ours), Channel(theirs)
    claims = [Holding(new_id(), number, 1.5) for number in range(20_000)]
    sent: list[bool] = []
    thread = threading.Thread(
        target=lambda: sent.append(speaker.send("holding", claims=written(claims)))
    )
    thread.start()
    messages: list[Message] = []
    while not messages:
        messages = hearer.receive()
    thread.join(PATIENCE)

    assert sent == [True]
    assert read(messages[0]["claims"]) == claims


def test_messages_of_many_threads_do_not_run_into_each_other(ends):
    ours, theirs = ends
    speaker, hearer = Channel(ours), Channel(theirs)
    threads = [
        threading.Thread(
            target=lambda who=who: [speaker.send(f"{who}", n=n, pad="x" * 500) for n in range(200)]
        )
        for who in range(4)
    ]
    for thread in threads:
        thread.start()
    heard: dict[str, list[int]] = {}
    while sum(map(len, heard.values())) < 800:
        for message in hearer.receive():
            heard.setdefault(message["kind"], []).append(message["n"])
    assert all(numbers == list(range(200)) for numbers in heard.values())


def test_a_supervisor_is_not_held_up_by_a_worker_that_reads_nothing(ends):
    ours, theirs = ends
    nudges: list[bool] = []
    supervisor = Channel(ours, may_block=False, kept=lambda: nudges.append(True))
    for _ in range(20_000):
        supervisor.hint("wake")
    for _ in range(20_000):
        supervisor.hint("rescue")
    supervisor.send("stop")

    # Somebody was told that it has to be flushed.
    assert nudges
    worker = Channel(theirs)
    heard: list[str] = []
    while supervisor.has_outgoing:
        heard += [message["kind"] for message in worker.receive_rest()]
        supervisor.flush()
    heard += [message["kind"] for message in worker.receive_rest()]
    # What fitted into the socket, and no more than once what did not.
    assert heard.count("wake") < 2_000
    assert heard.count("rescue") == 1
    assert heard.count("stop") == 1


def test_what_was_said_before_the_end_is_heard_after_a_send_has_failed(ends):
    """A worker's last words tell which claims it held."""
    ours, theirs = ends
    supervisor, worker = Channel(ours, may_block=False), Channel(theirs)
    worker.send("holding", claims=[["0" * 32, 1, None]])
    worker.close()

    assert supervisor.send("wake") is False
    assert supervisor.is_open
    assert not supervisor.has_outgoing
    assert [message["kind"] for message in supervisor.receive_rest()] == ["holding"]
    assert not supervisor.is_open


def test_the_rest_is_read_without_waiting_while_another_process_keeps_the_end_open(ends):
    ours, theirs = ends
    supervisor, worker = Channel(ours, may_block=False), Channel(theirs)
    worker.send("holding", claims=[["0" * 32, 1, None]] * 2_000)

    (message,) = supervisor.receive_rest()
    assert len(message["claims"]) == 2_000
    assert supervisor.is_open
    assert supervisor.receive() == []
