import t from 'tap';
import { PageBody } from '../../src/fetch/page-body.ts';

function bench(): { body: PageBody; calls: string[] } {
  const calls: string[] = [];
  const body = new PageBody({
    pause: () => calls.push('pause'),
    resume: () => calls.push('resume'),
    abort: () => calls.push('abort'),
  });
  return { body, calls };
}

async function next(body: PageBody): Promise<string | null> {
  const { done, value } = await body.next();
  return done === true ? null : Buffer.from(value).toString();
}

t.test('gives what has come since, in one piece', async (t) => {
  const { body } = bench();
  const first = next(body);
  for (const piece of ['a', 'b']) body.write(Buffer.from(piece));
  t.equal(await first, 'ab');
  body.write(Buffer.from('c'));
  body.end();
  t.same([await next(body), await next(body), await next(body)], ['c', null, null]);
});

t.test('pauses the server while the reader is behind', async (t) => {
  const { body, calls } = bench();
  body.write(Buffer.alloc(65_535));
  t.same(calls, []);
  body.write(Buffer.alloc(1));
  body.write(Buffer.alloc(1));
  t.same(calls, ['pause']);
  await body.next();
  t.same(calls, ['pause', 'resume']);
});

t.test('fails with the error of the connection, at once', async (t) => {
  const { body } = bench();
  const waiting = body.next();
  body.fail(new Error('cut off'));
  await t.rejects(waiting, { message: 'cut off' });
  const { body: other } = bench();
  other.write(Buffer.from('a'));
  other.fail(new Error('cut off'));
  await t.rejects(other.next(), { message: 'cut off' });
});

t.test('a reader that leaves ends the connection once, and nothing after the end', async (t) => {
  const { body, calls } = bench();
  await body.return();
  await body.return();
  t.same(calls, ['abort']);
  t.equal(await next(body), null);
  const ended = bench();
  ended.body.end();
  await ended.body.return();
  t.same(ended.calls, []);
});
