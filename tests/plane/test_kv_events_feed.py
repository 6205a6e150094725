"""Reading KV events: what vLLM sends, what is damaged, and the exchange over real sockets."""

import asyncio

import msgspec
import pytest
import zmq

from solarjax.plane.errors import Invalid
from solarjax.plane.placement.eventlog import EventLog
from solarjax.plane.placement.events import decode
from solarjax.plane.placement.feed import Feed
from solarjax.plane.placement.residency import ResidentIndex
from tests.plane.kv import CLEARED, Engine, message, removed, stored


def test_a_real_event_is_read():
    """The map that vLLM 0.32 sent for a salted prompt (placemem-notes.md, section 2), shortened."""
    payload = message(
        1.5,
        stored(16237640936925957179, 7, lora_id=None, lora_name=None, extra_keys=[["tenantA:v1"], None],
               kv_cache_spec_kind="full_attention"),
        {"type": "SomethingNew", "x": 1}, removed(7), CLEARED,
    )  # fmt: skip
    first, second, third = decode(payload)
    assert first.names() == [16237640936925957179, 7] and second.names() == [7] and third == decode(payload)[2]
    whole = (2**200 + 77).to_bytes(32, "big")
    assert decode(message(1.0, stored(whole)))[0].names() == [77], "digests end with the number"
    for bad in (b"", b"\xff", msgspec.msgpack.encode({"a": 1}), message(1.0, {"type": "BlockStored"})):
        with pytest.raises(Invalid, match="not a batch"):
            decode(bad)


def test_a_damaged_batch_empties_the_counts_and_the_log_goes_on():
    log = EventLog()
    log.replayed([(0, message(1.0, stored(1, 2)))])
    assert log.prefix([1, 2]) == 2
    log.offer(1, b"\xc1 nonsense")
    assert log.damaged == 1 and log.prefix([1, 2]) == 0
    log.offer(2, message(3.0, stored(3)))
    assert log.known and log.prefix([3]) == 1 and log.gaps == 0


def test_other_media_and_groups_of_layers_are_not_taken_for_the_device():
    index = ResidentIndex()
    for event in decode(message(1.0, stored(1, medium="CPU"), stored(2), removed(2, medium="CPU"))):
        index.apply(event)
    assert index.prefix([2, 1]) == 1
    for event in decode(message(1.0, stored(3, group_idx=1), stored(4))):
        index.apply(event)
    assert not index.supported and len(index) == 0
    log = EventLog()
    log.replayed([(0, message(1.0, stored(1, group_idx=1)))])
    assert log.known and log.prefix([1]) is None


class Publisher:
    """A PUB and a ROUTER socket that speak as vLLM does."""

    def __init__(self, folder):
        self.context = zmq.Context()
        self.endpoints = [f"ipc://{folder}/{name}" for name in ("live", "replay")]
        self.open()

    def open(self):
        self.live = self.context.socket(zmq.PUB)
        self.router = self.context.socket(zmq.ROUTER)
        for socket, endpoint in zip((self.live, self.router), self.endpoints, strict=True):
            socket.linger = 0
            socket.bind(endpoint)
        self.engine = Engine(1000)

    def close(self):
        self.live.close()
        self.router.close()

    def send(self, *events, live=True):
        number, payload = self.engine.publish(*events)
        if live:
            self.live.send_multipart([b"kv-events", number.to_bytes(8, "big"), payload])

    def serve(self):
        while self.router.poll(0):
            client, empty, begin = self.router.recv_multipart()
            assert empty == b""
            for number, payload in self.engine.replay(int.from_bytes(begin, "big")):
                self.router.send_multipart([client, b"", b"kv-events", number.to_bytes(8, "big"), payload])
            self.router.send_multipart([client, b"", b"", (-1).to_bytes(8, "big", signed=True), b""])

    async def until(self, done):
        async with asyncio.timeout(20):
            while not done():
                self.serve()
                await asyncio.sleep(0.01)


def test_over_real_sockets_with_a_late_start_a_gap_and_a_restart(tmp_path):
    async def scenario():
        publisher = Publisher(tmp_path)
        publisher.send(stored(1, 2), live=False)  # before anybody listened
        log = EventLog()
        feed = Feed(log, *publisher.endpoints, topic="kv-events")
        task = asyncio.create_task(feed.run())
        try:
            await publisher.until(lambda: log.known)
            assert log.prefix([1, 2, 3]) == 2
            # A subscription takes a moment to reach the publisher; until then batches are gaps, and are mended too.
            await publisher.until(lambda: (publisher.send(stored(3)), log.position > 2)[1])
            publisher.send(stored(4), live=False)  # lost on the way
            publisher.send(removed(1))
            await publisher.until(lambda: log.known and log.position == publisher.engine.number)
            assert log.gaps >= 1 and log.prefix([2, 3, 4]) == 3 and log.prefix([1]) == 0
            publisher.close()
            async with asyncio.timeout(20):
                while log.known:
                    await asyncio.sleep(0.01)
            assert log.prefix([2]) is None, "a broken connection means not known"
            publisher.open()
            publisher.engine.now += 1000.0
            publisher.send(stored(9), live=False)
            await publisher.until(lambda: log.known)
            assert log.prefix([2]) == 0 and log.prefix([9]) == 1 and log.restarts >= 1
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            publisher.close()
            publisher.context.term()

    asyncio.run(scenario())
