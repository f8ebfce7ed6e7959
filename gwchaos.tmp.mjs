import { postgresDatabase } from './dist/test/support/postgres.js';
import { openLedger } from './dist/src/billing/ledger/open-ledger.js';
import { systemClock } from './dist/src/actor/clock.js';
import { spawn } from 'node:child_process'; import http from 'node:http';
import pg from 'pg'; import fs from 'node:fs';
const kind = process.argv[2], seconds = Number(process.argv[3] ?? 30), kill = process.argv[4] === 'kill';
const dir = '/dev/shm/money/gw'; fs.rmSync(dir, { recursive: true, force: true }); fs.mkdirSync(dir, { recursive: true });
const url = kind === 'postgres' ? await postgresDatabase() : `sqlite:${dir}/s.db`;
const N = 'node_modules/.bin/node';
const run = (args, name) => spawn(N, ['bin/headrace.js', ...args], { stdio: ['ignore', fs.openSync(`${dir}/${name}.log`, 'w'), fs.openSync(`${dir}/${name}.err`, 'w')] });
const hosts = [1, 2].map(i => run(['host', '--model', 'm1,m2', '--port', String(19100 + i), '--ttft', '5', '--itl', '2', '--control', 'true'], 'host' + i));
const ledger0 = await openLedger(url, { clock: systemClock, dateMs: Date.now });
const GRANT = { p1: 60_000_000_000n, p2: 9_000_000_000n, org: 30_000_000_000n, m1: 0n };
for (const a of ['p1', 'p2', 'org', 'm1', 'post']) await ledger0.createAccount({ id: a });
for (const [a, v] of Object.entries(GRANT)) if (v > 0n) await ledger0.grant({ id: 'g' + a, account: a, amount: v });
await ledger0.configureAccount('m1', { organisation: 'org' });
const conf = i => { const f = `${dir}/c${i}.yaml`; fs.writeFileSync(f, JSON.stringify({ listen: `127.0.0.1:${19200 + i}`, admin: `127.0.0.1:${19300 + i}`, threads: 2, adminToken: 'tok0123456789abcdef0123456789abcdef',
  models: { m1: { servers: ['http://127.0.0.1:19101', 'http://127.0.0.1:19102'], pricing: { prompt: '0.25', completion: '1.5', cached_prompt: '0.05' } }, m2: { servers: ['http://127.0.0.1:19101', 'http://127.0.0.1:19102'], pricing: { prompt: '2', completion: '7' } } },
  keys: { static: ['p1', 'p2', 'm1', 'post'].map(a => ({ key: 'hr_static_' + a, account: a, prepaid: a !== 'post' })) }, credit: { lease: '0.0002', leaseTtl: '5s' }, costLog: { requests: 'all' }, store: url, log: { level: 'warn' } })); return f; };
const gws = [1, 2].map(i => run(['serve', '--config', conf(i)], 'gw' + i));
const ports = [19201, 19202];
for (const p of ports) for (let i = 0; i < 100; i++) { try { const r = await fetch(`http://127.0.0.1:${p}/health`); const j = await r.json(); if (r.ok && j.healthy_models >= 2) break; } catch {} await new Promise(r => setTimeout(r, 200)); }
const int = n => Math.floor(Math.random() * n), pick = a => a[int(a.length)];
const told = {}, st = {}, agent = new http.Agent({ keepAlive: true, maxSockets: 64 }); const errs = {};
const toPico = s => { const [w, f = ''] = s.split('.'); return BigInt(w + f.padEnd(12, '0')); };
function one() { return new Promise(done => {
  const acc = pick(['p1', 'p1', 'p2', 'm1', 'post']); const stream = Math.random() < 0.6; const dialect = int(3);
  const long = 'word '.repeat(1 + int(60));
  const max = pick([1, 5, 30, 60, undefined, 2000]);
  const [path, body] = dialect === 0 ? ['/v1/chat/completions', { model: pick(['m1', 'm2']), stream, ...(max && { max_tokens: max }), messages: [{ role: 'user', content: long + int(1e6) }], ...(Math.random() < 0.1 && { n: 2 }) }] : dialect === 1 ? ['/v1/messages', { model: pick(['m1', 'm2']), stream, max_tokens: max ?? 20, messages: [{ role: 'user', content: long }] }] : ['/v1/completions', { model: pick(['m1', 'm2']), stream, ...(max && { max_tokens: max }), prompt: long }];
  const abort = Math.random() < 0.25 ? 1 + int(60) : 0;
  const req = http.request({ port: pick(ports), path, method: 'POST', agent, headers: { 'content-type': 'application/json', authorization: 'Bearer hr_static_' + acc, te: 'trailers' } }, res => {
    st[res.statusCode] = (st[res.statusCode] ?? 0) + 1; let text = '';
    res.on('data', d => text += d); res.on('end', () => { const c = res.headers['x-headrace-cost'] ?? res.trailers['x-headrace-cost']; if (c !== undefined) told[acc] = (told[acc] ?? 0n) + toPico(c); else if (res.statusCode === 200) { st.untold = (st.untold ?? 0) + 1; } if (res.statusCode >= 400) { const k = res.headers['x-headrace-error'] ?? text.slice(0, 80); errs[k] = (errs[k] ?? 0) + 1; } done(); }); res.on('error', () => { st.cut = (st.cut ?? 0) + 1; done(); }); res.on('close', done); });
  req.on('error', () => { st.err = (st.err ?? 0) + 1; done(); }); req.end(JSON.stringify(body)); if (abort) setTimeout(() => { st.aborted = (st.aborted ?? 0) + 1; req.destroy(); }, abort);
}); }
const stopper = process.argv[4] === 'stop';
const stop = Date.now() + seconds * 1000; let low = {};
const watcher = (async () => { while (Date.now() < stop) { for (const a of ['p1', 'p2', 'org']) { const x = await ledger0.account(a).catch(() => null); if (x && (low[a] === undefined || x.balance < low[a])) low[a] = x.balance; } await new Promise(r => setTimeout(r, 50)); } })();
let killer; if (kill && kind === 'postgres') { const c = new pg.Client({ connectionString: url }); await c.connect(); killer = (async () => { let k = 0; while (Date.now() < stop - 3000) { await new Promise(r => setTimeout(r, 300 + int(1500))); k += (await c.query("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database() and random() < 0.5")).rowCount; } console.log('kills', k); await c.end(); })(); }
if (stopper) { const c = new pg.Client({ connectionString: url }); await c.connect(); const dir = (await c.query('show data_directory')).rows[0].data_directory; const master = Number(fs.readFileSync(dir + '/postmaster.pid', 'utf8').split('\n')[0]); const { execSync } = await import('node:child_process'); killer = (async () => { let n = 0; while (Date.now() < stop - 20000) { await new Promise(r => setTimeout(r, 3000 + int(3000))); const pids = [master, ...execSync('pgrep -P ' + master).toString().trim().split('\n').map(Number)]; for (const p of pids) try { process.kill(p, 'SIGSTOP') } catch {} await new Promise(r => setTimeout(r, pick([2000, 7000, 18000]))); for (const p of pids) try { process.kill(p, 'SIGCONT') } catch {} n++; } console.log('stops', n); await c.end(); })(); }
await Promise.all(Array.from({ length: 24 }, async () => { while (Date.now() < stop) await one(); }));
await watcher; await killer; agent.destroy();
await new Promise(r => setTimeout(r, 1500));
for (const g of gws) g.kill('SIGTERM'); await Promise.all(gws.map(g => new Promise(r => g.once('exit', r))));
for (const h of hosts) h.kill('SIGTERM');
console.log(st, errs, 'lowest', low);
const rows = await ledger0.usage({ by: ['account'] }); const rec = {};
for (let before; ;) { const page = await ledger0.requests.list({ limit: 1000, ...(before && { before }) }); for (const r of page) rec[r.account] = (rec[r.account] ?? 0n) + r.amount; if (page.length < 1000) break; before = page.at(-1).id; }
for (const r of rows) console.log(r.account, 'usage', r.amount, 'records', rec[r.account], r.amount === rec[r.account] ? 'SAME' : 'DIFFERENT', 'told', told[r.account], 'req', r.requests, 'est', r.estimated);
for (const a of await ledger0.listAccounts()) console.log(a.id, a.balance, a.held);
console.log(await ledger0.audit({ full: true }));
await ledger0.close();
for (const g of ['gw1', 'gw2']) console.log(g, fs.readFileSync(`${dir}/${g}.log`, 'utf8').slice(-1500), fs.readFileSync(`${dir}/${g}.err`, 'utf8').slice(-500));
process.exit();
