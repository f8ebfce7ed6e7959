import t from 'tap';
import { Journal, JournalEntry } from '../../src/host/journal.ts';

const entry = (id: number, url = '/completion'): JournalEntry => new JournalEntry(id, 'POST', url, {});
const any = (): boolean => true;

t.test('the oldest requests are dropped', async (t) => {
  const journal = new Journal(2);
  for (const id of [1, 2, 3]) journal.add(entry(id));
  t.same(
    journal.entries.map(({ id }) => id),
    [2, 3],
  );
});

t.test('a request resolves a waiting call, or is kept for the next one', async (t) => {
  const journal = new Journal(10);
  const waiting = journal.next((request) => request.path === '/b');
  journal.arrive(entry(1, '/a'));
  journal.arrive(entry(2, '/b?x=1'));
  journal.arrive(entry(3, '/b'));
  const got = await waiting;
  t.match(got, { id: 2, path: '/b', query: '?x=1' });
  t.equal((await journal.next((request) => request.path === '/b')).id, 3);
  t.equal((await journal.next(any)).id, 1);
});

t.test('an entry closes once, in one way, and resolves waiting calls', async (t) => {
  const aborted = entry(1);
  const told = Promise.all([aborted.whenAborted(), aborted.whenClosed()]);
  aborted.close('aborted');
  aborted.close('finished');
  await told;
  await aborted.whenClosed();
  t.match(aborted, { aborted: true, finished: false });

  const cut = entry(2);
  let wrong = false;
  void cut.whenAborted().then(() => (wrong = true));
  cut.close('cut');
  await cut.whenClosed();
  await new Promise((resolve) => setImmediate(resolve));
  t.match(cut, { aborted: false, finished: false });
  t.notOk(wrong, 'whenAborted stays pending');
});

t.test('the body is kept as its size and hash', async (t) => {
  const request = entry(1);
  request.setBody(Buffer.from('abc'));
  t.equal(request.bodyBytes, 3);
  t.equal(request.bodySha256, 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
});
