// Which paths are passed on to a CRN.
import t from 'tap';
import { pathFault } from '../../src/upstream/path-fault.ts';

t.test('no reading of a path leads out of the base URL', (t) => {
  const rows: [string, readonly string[]][] = [
    [
      'the path has a dot segment',
      [
        ...['/..', '/.', '/../', '/./', '/../../secret', '/v1/../secret', '/v1/..', '/v1/./x', '/..;/x', '/..;a=b/x'],
        ...['/%2e%2e/secret', '/%2E%2e/x', '/.%2e/x', '/%2E./x', '/v1/%2e', '/v1%2f..%2fx', '/v1%2F%2e%2e', '/..%2fx'],
      ],
    ],
    [
      'the path has an empty segment',
      ['//', '//host/x', '/v1//x', '/v1//', '/%2fx', '/v1/%2Fx', '/v1%2f/x', '/v1%2f%2fx'],
    ],
    ['the path has a backslash', ['/v1\\x', '/..\\x', '/v1%5cx', '/%5C..%5c']],
    ['the path has a fragment', ['/v1#x', '/#']],
    [
      'the path has a space or a control character',
      [
        '/v1/x y',
        '/v1/\t',
        '/v1/\r\nx: y',
        '/v1/\0',
        '/v1/\x7f',
        '/v1/%00',
        '/v1/%0d%0aX',
        '/v1/%1F',
        '/v1/%7f',
        '/v1/\u0100',
      ],
    ],
    ['the path has a percent sign without two hexadecimal digits', ['/%', '/v1/%2', '/v1/%zz', '/%u002e%u002e/x']],
  ];
  for (const [fault, paths] of rows) for (const path of paths) t.equal(pathFault(path), fault, JSON.stringify(path));
  t.end();
});

t.test('other paths are passed on', (t) => {
  const paths = [
    ...[
      '/',
      '/v1/embeddings',
      '/v1/embeddings/',
      '/v1/audio/speech.wav',
      '/...',
      '/.well-known/x',
      '/v1/a..b',
      '/v1/..a',
    ],
    ...[
      '/v1/a.',
      '/v1/x;y=1',
      '/model/org%2fname/infer',
      '/v1/caf%C3%A9',
      '/v1/caf\xe9',
      '/v1/a%20b',
      "/a:b@c!$&'()*+,;=~",
    ],
    '/%252e%252e/x',
  ];
  for (const path of paths) t.equal(pathFault(path), null, path);
  t.end();
});
