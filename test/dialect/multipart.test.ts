// The scanner of forms compared with the parser of Node's fetch, examples of what is refused, and what renaming a model changes.
import fc from 'fast-check';
import t from 'tap';
import { formBounds, isForm, renamedForm, type ScannedForm, scanForm } from '../../src/dialect/multipart.ts';

const BOUNDARY = '----form7MA4YWxk';
const TYPE = `multipart/form-data; boundary=${BOUNDARY}`;

function scanned(body: Buffer, type = TYPE): ScannedForm {
  const scan = scanForm(body, type);
  if (!scan.ok) throw new Error(JSON.stringify(scan.errors));
  return scan;
}

/** The sentence of a refusal. */
function refusal(body: Buffer | string, type = TYPE): string {
  const scan = scanForm(Buffer.from(body), type);
  return scan.ok ? 'accepted' : scan.errors.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join();
}

/** A part, as most clients write it. */
function part(name: string, value: string | Buffer, more = ''): Buffer {
  return Buffer.concat([
    Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n`),
    Buffer.from(value),
    Buffer.from('\r\n'),
  ]);
}

const END = Buffer.from(`--${BOUNDARY}--\r\n`);
const FILE = '; filename="speech.wav"\r\nContent-Type: audio/wav';

function form(...parts: readonly Buffer[]): Buffer {
  return Buffer.concat([...parts, END]);
}

/** What Node's own parser reads: the values of `model`; null when it refuses the body. */
async function reference(body: Buffer, type = TYPE): Promise<(string | null)[] | null> {
  try {
    const data = await new Response(body, { headers: { 'content-type': type } }).formData();
    return data.getAll('model').map((value) => (typeof value === 'string' ? value : null));
  } catch {
    return null;
  }
}

t.test('the model is found wherever it stands, also behind a file of 20 MB, without copying it', async (t) => {
  const file = Buffer.alloc(20_000_000, '\r\n--x');
  const model = part('model', 'whisper');
  const body = form(part('file', file, FILE), part('response_format', 'json'), model, part('stream', 'true'));
  const { models, scan, textBytes } = scanned(body);
  t.match(scan, { model: 'whisper', stream: true, session: undefined });
  t.equal(body.toString('latin1', models[0], models[1]), 'whisper');
  t.equal(textBytes, 'jsonwhispertrue'.length);
  const mostPromptTokens = 15 + Math.ceil((body.byteLength - 15) / 16) + 16_384;
  t.match(formBounds(body, scanned(body), 448), { promptTokens: 4, mostPromptTokens, context: 448 });
  t.match(formBounds(body, scanned(body), undefined), { context: Infinity, limit: undefined, answers: 1 });
  t.match(scanned(form(model, part('file', file, FILE))).scan, { model: 'whisper', stream: false });
});

t.test('a form is known by its content type', async (t) => {
  for (const type of [TYPE, 'Multipart/Form-Data', 'multipart/form-data ;boundary=x']) t.ok(isForm(type), type);
  for (const type of ['multipart/mixed; boundary=x', 'multipart/form-data2', 'application/json', '']) {
    t.notOk(isForm(type), type);
  }
});

t.test('boundaries may be quoted or not, with a preamble, an epilogue and padding', async (t) => {
  const model = part('model', 'm');
  for (const type of [
    `multipart/form-data; boundary="${BOUNDARY}"`,
    `Multipart/Form-Data;charset=utf-8; BOUNDARY=${BOUNDARY}`,
    `multipart/form-data; boundary=${BOUNDARY};`,
  ]) {
    t.equal(scanned(form(model), type).scan.model, 'm', type);
  }
  const other = "a'(b)+_,-./:=? c";
  const spaced = Buffer.from(form(model).toString('latin1').replaceAll(BOUNDARY, other), 'latin1');
  t.equal(scanned(spaced, `multipart/form-data; boundary="${other}"`).scan.model, 'm');
  const padded = form(model).toString().replace(`${BOUNDARY}\r\n`, `${BOUNDARY} \t\r\n`);
  t.equal(scanned(Buffer.from(padded)).scan.model, 'm');
  t.equal(scanned(Buffer.concat([Buffer.from('ignored\r\n'), form(model), Buffer.from('ignored')])).scan.model, 'm');
  t.equal(scanned(form(model).subarray(0, -2)).scan.model, 'm', 'without the last line end');
  const lower = `--${BOUNDARY}\r\ncontent-type: text/plain; charset=UTF-8\r\ncontent-disposition:form-data;name=model\r\n\r\nm\r\n`;
  t.equal(scanned(form(Buffer.from(lower))).scan.model, 'm');
  t.equal(scanned(form(part('model', 'ü😀'))).scan.model, 'ü😀');
  t.equal(scanned(form(part('a', ''), model, part('b', '--x\r\n-'))).scan.model, 'm');
});

t.test('what is no form, has no model, or could be read in two ways is refused', async (t) => {
  const model = part('model', 'm');
  const text = form(model).toString();
  t.match(refusal(form(model), 'multipart/form-data'), 'body: Content-Type multipart/form-data needs one boundary');
  t.match(refusal(form(model), 'multipart/form-data; boundary=a; boundary=b'), 'needs one boundary');
  t.match(refusal(form(model), 'multipart/form-data; boundary=""'), 'needs one boundary');
  t.match(refusal(form(model), `multipart/form-data; boundary=${'x'.repeat(71)}`), 'needs one boundary');
  t.match(refusal(form(model), 'multipart/form-data; boundary=other'), 'does not contain the boundary');
  t.equal(refusal(form(part('file', 'x', FILE))), 'body.model: Field required');
  t.equal(refusal(form()), 'body.model: Field required');
  t.equal(refusal(form(part('model', 'm', FILE))), 'body.model: Input should be a valid string');
  t.match(refusal(form(part('model', ''))), 'body.model: Input should be UTF-8 text of 1 to 1024 bytes');
  t.match(refusal(form(part('model', 'x'.repeat(1025)))), 'UTF-8 text of 1 to 1024 bytes');
  t.match(refusal(form(part('model', Buffer.from([0xff, 0xfe])))), 'UTF-8 text of 1 to 1024 bytes');
  t.equal(refusal(form(model, part('model', 'other'))), 'body.model: Field given twice with two values');
  t.equal(refusal(form(model, part('model', 'm'))), 'accepted');
  t.match(refusal(form(part('model', 'm', '\r\nContent-Type: text/plain; charset=utf-16'))), 'charset UTF-8');
  t.match(refusal(form(part('model', 'm', '\r\nContent-Transfer-Encoding: base64'))), 'Content-Transfer-Encoding');
  t.match(refusal(text.replace(`--${BOUNDARY}--`, '')), 'The closing boundary is missing');
  t.match(refusal(text.replace(`m\r\n--`, 'm\n--')), 'behind CRLF');
  t.match(refusal(`ignored\n${text}`), 'behind CRLF');
  t.match(refusal(form(part('prompt', `x--${BOUNDARY}\r\ny`), model)), 'behind CRLF');
  t.match(refusal(text.replace(`${BOUNDARY}\r\n`, `${BOUNDARY}\n`)), 'must be followed by a line end');
  t.match(refusal(text.replace(`${BOUNDARY}--`, `${BOUNDARY}x`)), 'must be followed by a line end');
  t.match(refusal(text.replace(`${BOUNDARY}--`, `${BOUNDARY}--x`)), 'must be followed by a line end');
  t.match(refusal(text + text), 'must not follow the closing one');
  t.match(refusal(`--${BOUNDARY}\r\n${text}`), 'A part needs a head');
  t.match(refusal(form(part('model', 'm', `\r\nx: ${'y'.repeat(17_000)}`))), 'A part needs a head of up to 16 KiB');
  for (const more of [
    '\r\nContent-Disposition: form-data; name="other"',
    '\r\n continued',
    '; name="other"',
    "; name*=utf-8''other",
    '\r\nno colon',
    '; broken="',
  ]) {
    t.match(refusal(form(part('model', 'm', more))), 'A part needs one Content-Disposition', more);
  }
  t.match(refusal(text.replace('form-data; name', 'attachment; name')), 'A part needs one Content-Disposition');
  t.match(refusal(text.replace('; name="model"', ';')), 'A part needs one Content-Disposition');
});

t.test('a form has a thousand parts, and a megabyte of heads', async (t) => {
  const many = (count: number): Buffer[] => Array.from({ length: count }, () => part('a', '1'));
  t.equal(refusal(form(...many(999), part('model', 'm'))), 'accepted');
  t.equal(refusal(form(...many(1000), part('model', 'm'))), 'body: A form should have at most 1000 parts');
  const wide = Array.from({ length: 70 }, () => part('a', '1', `\r\nX: ${'x'.repeat(15_000)}`));
  t.equal(refusal(form(...wide, part('model', 'm'))), 'body: The heads of all parts should have at most 1 MiB');
  t.equal(refusal(form(...wide.slice(2), part('model', 'm'))), 'accepted');
});

t.test('renaming changes the values of the model and nothing else', async (t) => {
  const rest = [part('file', Buffer.from([0, 13, 10, 255]), FILE), part('prompt', 'm')];
  const body = form(part('model', 'alias'), ...rest, part('model', 'alias'));
  const renamed = renamedForm(body, scanned(body), 'acme/Whisper');
  t.same(renamed, form(part('model', 'acme/Whisper'), ...rest, part('model', 'acme/Whisper')));
  t.equal(renamedForm(body, scanned(body), 'ALIAS'), body, 'in any case it is left as it was written');
});

const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 40 }).map((value) => Buffer.from(value)),
  fc
    .array(fc.constantFrom('\r\n', '\r', '\n', '--', `--${BOUNDARY}`, BOUNDARY.slice(0, 9), ' ', 'x', '"', ':', ';'), {
      maxLength: 8,
    })
    .map((pieces) => Buffer.from(pieces.join(''))),
);
const name = fc.constantFrom('model', 'file', 'prompt', 'stream', 'model ', 'Model');
const more = fc.constantFrom('', FILE, '; filename=""', '\r\nContent-Type: text/plain');
const parts = fc.array(
  fc.tuple(
    name,
    fc.oneof(
      bytes,
      fc.string({ unit: 'grapheme' }).map((text) => Buffer.from(text)),
    ),
    more,
  ),
  { maxLength: 6 },
);

t.test('what is accepted has the model that the parser of Node reads', async (t) => {
  let accepted = 0;
  await fc.assert(
    fc.asyncProperty(parts, async (list) => {
      const body = form(...list.map(([field, value, rest]) => part(field, value, rest)), part('model', 'whisper'));
      const scan = scanForm(body, TYPE);
      if (!scan.ok) return;
      accepted++;
      const models = await reference(body);
      if (models?.every((model) => model === scan.scan.model) === true && models.length > 0) return;
      throw new Error(`${scan.scan.model} for ${JSON.stringify(models)} in ${body.toString()}`);
    }),
    { numRuns: 1000 },
  );
  t.ok(accepted > 50, `${accepted} were accepted`);
});

t.test('any change of any bytes is refused, or read as the parser of Node reads it', async (t) => {
  const good = form(part('file', 'RIFF\r\n\r\n', FILE), part('model', 'whisper'), part('stream', 'true'));
  const inserts = fc.constantFrom(
    '',
    '\r',
    '\n',
    '\r\n',
    '-',
    '--',
    `--${BOUNDARY}`,
    '"',
    ';',
    ':',
    '\0',
    'model',
    '=',
  );
  const edits = fc.array(fc.tuple(fc.nat(good.length), fc.nat(4), inserts), { minLength: 1, maxLength: 3 });
  let accepted = 0;
  await fc.assert(
    fc.asyncProperty(edits, async (changes) => {
      let body = good;
      for (const [at, removed, inserted] of changes) {
        body = Buffer.concat([body.subarray(0, at), Buffer.from(inserted), body.subarray(at + removed)]);
      }
      const scan = scanForm(body, TYPE);
      if (!scan.ok) return;
      accepted++;
      const models = await reference(body);
      // Node's parser refuses some forms that are well-formed.
      if (models !== null && !models.every((model) => model === scan.scan.model)) {
        throw new Error(`${scan.scan.model} for ${JSON.stringify(models)} in ${JSON.stringify(body.toString())}`);
      }
    }),
    { numRuns: 2000 },
  );
  t.ok(accepted > 100, `${accepted} were accepted`);
});
