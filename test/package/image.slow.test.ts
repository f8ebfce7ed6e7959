// The steps of the Dockerfile, read out of it and run in a folder of its own with the programs of this machine: the package is packed
// and installed, and started in a chroot as user 1000 with a read-only root file system. Needs root and mount namespaces.

import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import t from 'tap';
import { pack, ROOT } from './installed.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const run = promisify(execFile);

const possible = process.getuid?.() === 0 && spawnSync('unshare', ['--mount', 'true']).status === 0;
const options = possible ? {} : { skip: 'needs root and mount namespaces' };

interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** The stages of a Dockerfile, each a list of instructions. */
function stagesOf(text: string): Instruction[][] {
  const stages: Instruction[][] = [];
  const lines = text
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll('\\\n', ' ')
    .split('\n');
  for (const line of lines) {
    const [, name, rest] = /^([A-Z]+) +(.+)$/.exec(line) ?? [];
    if (name === undefined || rest === undefined) continue;
    if (name === 'FROM') stages.push([]);
    stages.at(-1)?.push({ name, text: rest.trim() });
  }
  return stages;
}

const [build = [], install = [], image = []] = stagesOf(readFileSync(join(ROOT, 'ops/docker/Dockerfile'), 'utf8'));
const textOf = (stage: readonly Instruction[], name: string): string[] =>
  stage.filter((instruction) => instruction.name === name).map(({ text }) => text);

/** The root of the image in a mount namespace of its own: /usr of this machine, all else of the image. It ends with the namespace. */
const MOUNTS = `
set -e
cd "$IMAGE"
mount --bind . .
cd "$IMAGE"
mount --bind /usr usr && mount -o remount,bind,ro usr
for folder in bin sbin lib lib64; do
  if [ -L "/$folder" ]; then ln -sfn "usr/$folder" "$folder"
  elif [ -d "/$folder" ]; then mkdir -p "$folder" && mount --bind "/$folder" "$folder" && mount -o remount,bind,ro "$folder"; fi
done
mount --bind "$LOCAL" usr/local
touch dev/null dev/urandom && mount --bind /dev/null dev/null && mount --bind /dev/urandom dev/urandom
mount --rbind /proc proc
`;

t.test('the Dockerfile has the stages that are run here', async (t) => {
  t.same(textOf(build, 'RUN')[0], 'npm ci');
  t.match(textOf(build, 'RUN')[1], /^npm pack --pack-destination \/tmp/);
  t.equal(textOf(install, 'RUN').length, 1);
  t.match(textOf(image, 'COPY')[0], /^--from=install (\S+node_modules) \1$/);
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    devDependencies: Record<string, string>;
  };
  for (const name of ['@grpc/grpc-js', '@grpc/proto-loader']) {
    t.match(textOf(install, 'RUN')[0], ` ${name}@${devDependencies[name]} `, 'the version that is tested');
  }
  t.equal(textOf(image, 'RUN').length, 1);
  t.equal(textOf(image, 'COPY').length, 1);
});

t.test('the image starts read-only as user 1000, is healthy, and ends with 0', options, async (t) => {
  const folder = temporaryFolder(t);
  const [root, local, state] = ['root', 'local', 'state'].map((name) => join(folder, name)) as [string, string, string];
  for (const name of ['usr', 'dev', 'proc', 'tmp', 'etc/headrace', 'var/lib']) {
    mkdirSync(join(root, name), { recursive: true });
  }
  mkdirSync(join(local, 'bin'), { recursive: true });
  mkdirSync(state);

  const { filename } = await pack(folder);
  const [installing = ''] = textOf(install, 'RUN');
  const tarball = installing.replace('/tmp/headrace.tgz', join(folder, filename));
  t.not(tarball, installing);
  const npm = {
    npm_config_prefix: local,
    npm_config_prefer_offline: 'true',
    npm_config_audit: 'false',
    npm_config_fund: 'false',
  };
  await run('sh', ['-c', tarball], { env: { ...process.env, NODE_OPTIONS: '', ...npm } });
  t.ok(
    createRequire(join(local, 'lib/node_modules/headrace/dist/src/picker/')).resolve('@grpc/grpc-js'),
    'for the picker',
  );
  // What the final stage does not copy is not in the image.
  rmSync(join(local, 'bin'), { recursive: true });
  mkdirSync(join(local, 'bin'));
  copyFileSync(process.execPath, join(local, 'bin/node'));
  writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0::/:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n');
  writeFileSync(join(root, 'etc/group'), 'root:x:0:\nnode:x:1000:\n');
  writeFileSync(
    join(root, 'etc/headrace/headrace.yaml'),
    'listen: 127.0.0.1:0\nstore: sqlite:/var/lib/headrace/headrace.db\nkeys: { required: false }\n',
  );

  const [user = ''] = textOf(image, 'USER');
  const [workdir = ''] = textOf(image, 'WORKDIR');
  const words = [...textOf(image, 'ENTRYPOINT'), ...textOf(image, 'CMD')].flatMap(
    (text) => JSON.parse(text) as string[],
  );
  const settings = textOf(image, 'ENV').join(' ');
  const script = `${MOUNTS}
    chroot . /bin/sh -ec "$PREPARE"
    # The volume for the state, and the root that cannot be written any more.
    cp -a var/lib/headrace/. "$STATE" && chown --reference var/lib/headrace "$STATE"
    mount --bind "$STATE" var/lib/headrace
    mount -t tmpfs tmpfs tmp
    mount -o remount,bind,ro usr/local
    mount -o remount,bind,ro "$IMAGE"
    exec chroot --userspec="$RUN_AS" . /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin ${settings} HEADRACE_ADMIN=127.0.0.1:0 \\
      /bin/sh -c 'cd "$0" && id -u >/var/lib/headrace/uid && ! touch /etc/x /usr/local/x 2>/dev/null && exec "$@"' "$WORK" ${words.join(' ')}`;
  const child = spawn('unshare', ['--mount', '--propagation', 'private', 'sh', '-c', script], {
    env: {
      PATH: process.env['PATH'],
      IMAGE: root,
      LOCAL: local,
      STATE: state,
      PREPARE: textOf(image, 'RUN')[0],
      RUN_AS: `${user}:${user}`,
      WORK: workdir,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  let url = '';
  for await (const line of createInterface(child.stdout)) {
    const found = /listening on (http:\S+)/.exec(line)?.[1];
    if (found !== undefined) url = found;
    if (line.startsWith('admin on ')) break;
  }
  t.match(url, /^http:/, 'the gateway started');
  t.equal(readFileSync(join(state, 'uid'), 'utf8').trim(), '1000');
  t.ok(existsSync(join(state, 'headrace.db')), 'the ledger is on the volume');
  const [response] = (await once(get(`${url}/health`), 'response')) as [{ statusCode: number; resume: () => void }];
  response.resume();
  t.equal(response.statusCode, 200);
  child.kill('SIGTERM');
  t.same(await exited, [0, null]);
});
