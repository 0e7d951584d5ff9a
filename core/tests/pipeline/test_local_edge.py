"""An edge inside the coordinator: order, copies, and four ways to end."""

from __future__ import annotations

import threading

import pytest
import torch

from truecluster._pipeline.local import local_edge
from truecluster.api import EdgeBroken, EdgeClosed, EdgeEnded


def into(*tensors: torch.Tensor):
    return lambda header: tensors


def test_messages_come_in_order_with_their_tensors():
    producer, consumer = local_edge()
    for i in range(3):
        producer.send(bytes([i]), [torch.full((2,), i, dtype=torch.int32), torch.full((1, 3), float(i))])
    for i in range(3):
        ids, rows = torch.zeros(2, dtype=torch.int32), torch.zeros(1, 3)
        assert consumer.recv(into(ids, rows)) == bytes([i])
        assert ids.tolist() == [i, i]
        assert rows.tolist() == [[i] * 3]


def test_what_was_sent_may_be_used_again_at_once():
    producer, consumer = local_edge()
    tensor, received = torch.ones(4), torch.zeros(4)
    producer.send(b"", [tensor])
    tensor.zero_()
    consumer.recv(into(received))
    assert received.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "destinations", [(), (torch.zeros(3),), (torch.zeros(1, 2),), (torch.zeros(2).int(),), (torch.zeros(2),) * 2]
)
def test_tensors_must_be_what_the_header_says(destinations):
    producer, consumer = local_edge()
    producer.send(b"header", [torch.ones(2)])
    with pytest.raises(EdgeBroken, match="not what its header says"):
        consumer.recv(into(*destinations))


def test_an_edge_closed_by_its_producer_ends_after_what_was_sent():
    producer, consumer = local_edge()
    producer.send(b"last", [])
    producer.close()
    producer.close()
    assert consumer.recv(into()) == b"last"
    with pytest.raises(EdgeEnded):
        consumer.recv(into())
    with pytest.raises(EdgeEnded):
        producer.send(b"", [])


@pytest.mark.parametrize("end", [0, 1])
def test_abort_drops_what_was_sent_and_ends_both_sides(end):
    edge = local_edge()
    edge[0].send(b"lost", [])
    edge[end].abort()
    edge[end].abort()
    edge[end].close()
    with pytest.raises(EdgeClosed):
        edge[1].recv(into())
    with pytest.raises(EdgeClosed):
        edge[0].send(b"", [])


@pytest.mark.parametrize(("how", "error"), [("abort", EdgeClosed), ("close", EdgeEnded)])
def test_whoever_waits_is_woken(how, error):
    producer, consumer = local_edge()
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            consumer.recv(into())
        except Exception as raised:
            caught.append(raised)

    thread = threading.Thread(target=wait)
    thread.start()
    getattr(producer, how)()
    thread.join(10)
    assert [type(raised) for raised in caught] == [error]
