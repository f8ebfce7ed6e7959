// The wire format of KV events: every form that vLLM and SGLang have sent, and what is refused.
import * as fc from 'fast-check';
import t from 'tap';
import { type KvEvent, readKvEvents } from '../../src/routing/kv-event-batch.ts';
import { batch, CLEARED, hashes, msgpack, removed, stored, type Value } from '../support/kv-publisher.ts';

function only(payload: Buffer): KvEvent | undefined {
  const events = readKvEvents(payload);
  t.equal(events.length, 1);
  return events[0];
}

function hashesOf(event: KvEvent | undefined): readonly number[] {
  return event === undefined || event.type === 'cleared' ? [] : event.hashes;
}

t.test('events of SGLang: arrays, with and without a medium', async (t) => {
  const [one, two] = hashes(0, 2) as [bigint, bigint];
  const plain = readKvEvents(msgpack([1.5, [['BlockStored', [one, two], null, [7, 8], 1, null]]]));
  t.match(plain, [{ type: 'stored', blockTokens: 1, medium: 'device', group: 0, keepsPrefix: true }]);
  t.equal(hashesOf(plain[0]).length, 2);
  t.match(readKvEvents(batch(removed([one], 'CPU_TIER1'))), [{ type: 'removed', medium: 'other', group: 0 }]);
  t.match(readKvEvents(msgpack([1.5, [['BlockRemoved', [one]], CLEARED], 3])), [
    { type: 'removed', medium: 'device' },
    { type: 'cleared' },
  ]);
});

t.test('events of vLLM: arrays with a LoRA, an adapter name, extra keys and groups', async (t) => {
  const [one] = hashes(0, 1) as [bigint];
  const tail: Value[] = [5, 'GPU', 'sql-adapter', [['sql-adapter', ['image', 1]]], 1, 'sliding_window', 1024];
  t.match(only(batch(['BlockStored', [one], 9n, [1, 2], 2, ...tail])), {
    group: 1,
    keepsPrefix: false,
    blockTokens: 2,
  });
  t.match(only(batch(['BlockRemoved', [one], 'CPU', 1])), { type: 'removed', group: 1, medium: 'other' });
});

t.test('events of vLLM: maps, in a batch that is an array or a map', async (t) => {
  const [one] = hashes(0, 1) as [bigint];
  const event = {
    type: 'BlockStored',
    ...{ block_hashes: [one], parent_block_hash: null, token_ids: [1, 2], block_size: 2, lora_id: null, medium: 'GPU' },
    ...{ lora_name: null, extra_keys: [null], group_idx: 0, kv_cache_spec_kind: 'full_attention' },
  };
  for (const payload of [
    batch(event),
    msgpack({ ts: 1.5, events: [event], data_parallel_rank: 0 }),
    msgpack({ data_parallel_rank: 0, events: [event], ts: 1.5, field_of_later: [1] }),
  ]) {
    t.match(only(payload), { type: 'stored', blockTokens: 2, keepsPrefix: true, medium: 'device' });
  }
  t.match(
    readKvEvents(batch({ type: 'BlockRemoved', block_hashes: [one], medium: 'GPU' }, { type: 'AllBlocksCleared' })),
    [{ type: 'removed', hashes: hashesOf(only(batch(event))) }, { type: 'cleared' }],
  );
});

t.test('the same hash gives the same digest as an integer of any sign and as bytes', async (t) => {
  const digestOf = (hash: bigint | number | Uint8Array): number | undefined =>
    hashesOf(only(batch(['BlockRemoved', [hash as bigint], null])))[0];
  t.equal(digestOf(0xfedc_ba98_7654_3210n), digestOf(BigInt.asIntN(64, 0xfedc_ba98_7654_3210n)));
  t.equal(digestOf(0xfedc_ba98_7654_3210n), digestOf(Buffer.from('00'.repeat(24) + 'fedcba9876543210', 'hex')));
  t.equal(digestOf(77), digestOf(77n), 'small hashes are short integers');
  const digests = new Set(hashesOf(only(batch(removed(hashes(0, 20_000))))));
  t.ok(digests.size > 19_990, 'digests of different hashes differ');
});

t.test('types of later versions are left out', async (t) => {
  t.match(readKvEvents(batch(['BlockTransferred', [1n], 'CPU'], { type: 'Moved' }, CLEARED)), [{ type: 'cleared' }]);
});

t.test('what is no batch of events is refused as a whole', async (t) => {
  const [one] = hashes(0, 1) as [bigint];
  for (const [name, payload] of Object.entries({
    empty: Buffer.alloc(0),
    text: Buffer.from('{"events": []}'),
    number: msgpack(7),
    'no events': msgpack([1.5]),
    'events that are a map': msgpack([1.5, {}]),
    'an event without a type': batch([[one]]),
    'a number as an event': batch(7),
    'hashes that are no list': batch(['BlockStored', 7, null, [], 16]),
    'a hash that is text': batch(['BlockRemoved', ['ab']]),
    'a hash of too few bytes': batch(['BlockRemoved', [Buffer.alloc(4)]]),
    'a hash with a fraction': batch(['BlockRemoved', [0.5 as never]]),
    'no block size': batch(['BlockStored', [one], null, []]),
    'a block size below zero': batch(['BlockStored', [one], null, [], -5n]),
    'a huge block size': batch(['BlockStored', [one], null, [], 1 << 20]),
    'a huge group': batch(['BlockRemoved', [one], null, 1 << 20]),
    'a medium that is a number': batch(['BlockRemoved', [one], 7]),
    'a good event before a bad one': batch(stored([one], 16), ['BlockRemoved', 7]),
    'a truncated payload': batch(stored(hashes(0, 8), 16)).subarray(0, 40),
    'a payload with a rest': Buffer.concat([batch(CLEARED), Buffer.of(1)]),
    'an array that claims four thousand million entries': Buffer.of(0xdd, 0xff, 0xff, 0xff, 0xff, 0x01),
    'arrays in arrays': Buffer.alloc(1 << 20, 0x91),
    'maps in maps': Buffer.alloc(1 << 20, 0x81),
    'an extension in place of the events': Buffer.of(0x92, 0x01, 0xd4, 0x72, 0x40),
    'an expression in place of the events': Buffer.of(0x92, 0x01, 0xd6, 0x78, 0x92, 0xa1, 0x61, 0xa0),
  })) {
    t.throws(() => readKvEvents(payload), name);
  }
});

t.test('random bytes and random changes of a batch are read or refused, and nothing else', async () => {
  const good = batch(stored(hashes(0, 4), 16), removed(hashes(0, 2)), CLEARED);
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array({ maxLength: 200 }),
        fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { maxLength: 8 }).map((changes) => {
          const changed = Buffer.from(good);
          for (const [at, byte] of changes) changed[at] = byte;
          return changed;
        }),
      ),
      (payload) => {
        try {
          for (const event of readKvEvents(payload)) {
            if (event.type !== 'cleared' && !event.hashes.every((hash) => (hash | 0) === hash)) return false;
          }
        } catch (error) {
          return error instanceof Error;
        }
        return true;
      },
    ),
    { numRuns: 3000 },
  );
});
