"""KV events against libzmq: a publisher and a subscriber as vLLM has them (pyzmq and msgspec), beside Headrace's.

    python3 -m venv venv && venv/bin/pip install pyzmq msgspec
    npm run build && venv/bin/python bench/kv-events/interop.py

1. Messages of libzmq sockets (PUB and ROUTER) are read by the gateway's subscription: arrays, maps, a gap with replay, a restart.
2. Events of `headrace host` are read by libzmq sockets (SUB and DEALER), and decoded with msgspec structs of vLLM's shape.
Prints one line per check; exit code 1 when one fails.
"""

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Optional, Union

import msgspec
import zmq

ROOT = Path(__file__).resolve().parents[2]
NODE = [str(ROOT / "node_modules" / "node" / "bin" / "node")]
BLOCK = 16


class Event(msgspec.Struct, array_like=True, omit_defaults=True, tag=True):
    pass


class BlockStored(Event):
    block_hashes: list[Union[int, bytes]]
    parent_block_hash: Optional[Union[int, bytes]]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str]
    lora_name: Optional[str]


class BlockRemoved(Event):
    block_hashes: list[Union[int, bytes]]
    medium: Optional[str]


class AllBlocksCleared(Event):
    pass


class Batch(msgspec.Struct, array_like=True, omit_defaults=True):
    ts: float
    events: list[Union[BlockStored, BlockRemoved, AllBlocksCleared]]
    data_parallel_rank: Optional[int] = None


class MapEvent(msgspec.Struct, omit_defaults=True, tag="BlockStored"):
    block_hashes: list[Union[int, bytes]]
    parent_block_hash: Optional[Union[int, bytes]]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]
    medium: Optional[str]
    lora_name: Optional[str]
    group_idx: Optional[int] = None


class MapBatch(msgspec.Struct, omit_defaults=True):
    ts: float
    events: list[Any]
    data_parallel_rank: Optional[int] = None


failures = 0


def check(what: str, holds: bool, seen: object = "") -> None:
    global failures
    failures += not holds
    print(f"{'ok    ' if holds else 'FAILED'} {what} {seen}", flush=True)


def stored(number: int, count: int, as_bytes: bool = False) -> BlockStored:
    hashes = [(0x9E3779B97F4A7C15 * (number + at + 1)) % 2**64 for at in range(count)]
    keys = [key.to_bytes(32, "big") for key in hashes] if as_bytes else hashes
    return BlockStored(keys, None, list(range(count * BLOCK)), BLOCK, None, "GPU", None)


def ask(script: subprocess.Popen) -> dict:
    script.stdin.write("\n")
    script.stdin.flush()
    return json.loads(script.stdout.readline())


def eventually(script: subprocess.Popen, holds) -> dict:
    deadline = time.monotonic() + 10
    while True:
        seen = ask(script)
        if holds(seen) or time.monotonic() > deadline:
            return seen
        time.sleep(0.02)


def reads_libzmq(context: zmq.Context) -> None:
    publisher = context.socket(zmq.XPUB)
    port = publisher.bind_to_random_port("tcp://127.0.0.1")
    router = context.socket(zmq.ROUTER)
    replay = router.bind_to_random_port("tcp://127.0.0.1")
    pack = msgspec.msgpack.Encoder().encode
    sequence = lambda number: number.to_bytes(8, "big", signed=True)
    subscriber = subprocess.Popen(
        [*NODE, str(ROOT / "bench/kv-events/subscriber.mjs"), f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{replay}", "kv"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    try:
        publisher.poll(10_000)
        check("libzmq receives the subscription", publisher.recv() == b"\x01kv")
        send = lambda number, batch: publisher.send_multipart((b"kv", sequence(number), pack(batch)))
        send(0, Batch(time.time(), [stored(0, 10)], 0))
        seen = eventually(subscriber, lambda seen: seen["residentTokens"] == 160)
        check("a batch of arrays is applied", seen["residentTokens"] == 160, seen)
        fields = msgspec.structs.asdict(stored(10, 5, as_bytes=True))
        send(1, MapBatch(time.time(), [MapEvent(**fields, group_idx=0)], 0))
        seen = eventually(subscriber, lambda seen: seen["residentTokens"] == 240)
        check("a batch of maps with hashes as bytes is applied", seen["residentTokens"] == 240, seen)
        send(4, Batch(time.time(), [stored(40, 1)], 0))
        router.poll(10_000)
        client, empty, start = router.recv_multipart()
        check("a gap is asked for", (empty, start) == (b"", sequence(2)), start)
        for number in (2, 3, 4, 5):
            router.send_multipart((client, b"", sequence(number), pack(Batch(time.time(), [stored(number * 10, 1)], 0))))
        router.send_multipart((client, b"", sequence(-1), b""))
        seen = eventually(subscriber, lambda seen: seen["replayed"] == 2 and seen["residentTokens"] == 288)
        check("the replay is applied", seen["residentTokens"] == 288 and seen["lost"] == 0, seen)
        for number in range(5, 2005):
            send(number, Batch(time.time(), [stored(number * 10, 4)], 0))
        seen = eventually(subscriber, lambda seen: seen["events"] + seen["lost"] >= 2005)
        check("2,000 batches are applied", seen["lost"] == 0 and seen["rejected"] == 0, seen)
        send(0, Batch(time.time(), [AllBlocksCleared()], 0))
        seen = eventually(subscriber, lambda seen: seen["restarts"] == 1)
        check("a restart is noticed", seen["restarts"] == 1 and seen["residentTokens"] == 0, seen)
        publisher.close(linger=0)
        seen = eventually(subscriber, lambda seen: not seen["connected"])
        check("the end of the publisher is noticed", not seen["connected"])
        publisher = context.socket(zmq.XPUB)
        publisher.bind(f"tcp://127.0.0.1:{port}")
        publisher.poll(10_000)
        check("it subscribes again", publisher.recv() == b"\x01kv")
    finally:
        subscriber.stdin.close()
        subscriber.wait(10)
        publisher.close(linger=0)
        router.close(linger=0)


def is_read_by_libzmq(context: zmq.Context) -> None:
    host = subprocess.Popen(
        [*NODE, str(ROOT / "bin/headrace.js"), "host", "--model", "m", "--port", "0", "--profile", "8b-h100", "--speed", "100",
         "--kv-events", "tcp://127.0.0.1:*", "--kv-events-replay", "tcp://127.0.0.1:*", "--kv-events-topic", "kv"],
        stdout=subprocess.PIPE, text=True,
    )
    subscriber, dealer = context.socket(zmq.SUB), context.socket(zmq.DEALER)
    try:
        url = host.stdout.readline().split()[-1]
        events, replay = host.stdout.readline().removeprefix("KV events at ").split(", replay at ")
        subscriber.connect(events.strip())
        subscriber.subscribe(b"kv")
        decode = msgspec.msgpack.Decoder(Batch).decode

        def complete(text: str) -> None:
            body = json.dumps({"model": "m", "prompt": text, "max_tokens": 4}).encode()
            request = urllib.request.Request(f"{url}/v1/completions", body, {"content-type": "application/json"})
            urllib.request.urlopen(request).read()

        received = []
        while not received:
            complete("The miller ground the corn of the village. " * 40 + str(time.monotonic()))
            while subscriber.poll(50):
                received.append(subscriber.recv_multipart())
        topic, number, payload = received[0]
        check("libzmq receives three frames", topic == b"kv" and len(number) == 8)
        batch = decode(payload)
        first = next(event for event in batch.events if isinstance(event, BlockStored))
        check("msgspec decodes the batch", len(first.token_ids) == len(first.block_hashes) * first.block_size, first.block_hashes[:2])
        dealer.connect(replay.strip())
        dealer.send_multipart((b"", (0).to_bytes(8, "big")))
        numbers = []
        while dealer.poll(5000):
            _, number, payload = dealer.recv_multipart()
            if payload == b"":
                break
            decode(payload)
            numbers.append(int.from_bytes(number, "big"))
        check("the replay begins with the first batch and has no holes", numbers == list(range(len(numbers))) and len(numbers) > 0, len(numbers))
        check("it ends with the number -1", int.from_bytes(number, "big", signed=True) == -1)
    finally:
        subscriber.close(linger=0)
        dealer.close(linger=0)
        host.terminate()
        host.wait(10)


if __name__ == "__main__":
    print(f"libzmq {zmq.zmq_version()}, pyzmq {zmq.__version__}, msgspec {msgspec.__version__}")
    shared = zmq.Context()
    reads_libzmq(shared)
    is_read_by_libzmq(shared)
    sys.exit(1 if failures else 0)
