import t from 'tap';
import { createVocabulary } from '../../../../src/host/engine/model/vocabulary.ts';
import { GrammarCache } from '../../../../src/host/engine/sampling/grammar-cache.ts';
import { GrammarError } from '../../../../src/host/engine/grammar/grammar-rules.ts';

const vocabulary = createVocabulary();

t.test('keeps the grammars that were used last', async (t) => {
  const cache = new GrammarCache(vocabulary);
  const first = cache.get('root ::= "0"');
  const second = cache.get('root ::= "1"');
  for (let at = 2; at < 64; at++) cache.get(`root ::= "${at}"`);
  t.equal(cache.get('root ::= "0"'), first);
  cache.get('root ::= "64"');
  t.equal(cache.get('root ::= "0"'), first);
  t.not(cache.get('root ::= "1"'), second);
});

t.test('keeps few large grammars, and the last one in any case', async (t) => {
  const cache = new GrammarCache(vocabulary);
  const textOf = (at: number): string => `root ::= "${at}${'a'.repeat(499_000)}"`;
  const grammars = Array.from({ length: 3 }, (_, at) => cache.get(textOf(at)));
  t.equal(cache.get(textOf(2)), grammars[2]);
  t.not(cache.get(textOf(0)), grammars[0]);
});

t.test('counts what a grammar takes in use', async (t) => {
  const cache = new GrammarCache(vocabulary);
  const nested = Array.from({ length: 6 }, (_, at) => cache.get(`root ::= "(" root ")" | "${at}"`));
  for (const grammar of nested) {
    let state = grammar.start;
    for (let depth = 0; depth < 8000; depth++) state = grammar.advance(state, vocabulary.firstByte + 40)!;
  }
  cache.get('root ::= "x"');
  t.not(cache.get('root ::= "(" root ")" | "0"'), nested[0]);
  t.equal(cache.get('root ::= "(" root ")" | "5"'), nested[5]);
});

t.test('keeps nothing that is no grammar', async (t) => {
  const cache = new GrammarCache(vocabulary);
  t.throws(() => cache.get('root ::='.repeat(2)), GrammarError);
  t.throws(() => cache.get('root ::='.repeat(2)), GrammarError);
});
