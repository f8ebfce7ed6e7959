// Cases of translating a request of 20 KB with tools, and an answer and a stream of 64 events, from messages and responses to chat
// completions; beside it JSON.parse and JSON.stringify of the same body, which a translation by values would take at least.

import { dialectRequests } from '../../lib/dialect-traffic.mjs';
import { ANSWER, EVENTS, eventText, MODEL } from '../../lib/traffic.mjs';

const answer = Buffer.from(ANSWER);
const events = Array.from({ length: EVENTS }, (_, index) => Buffer.from(eventText(index, 0)));

function bodyOf(dialect) {
  const [request] = dialectRequests({ port: 80, dialect, model: MODEL, stream: true, bodyBytes: 20_000 });
  return Buffer.from(request.subarray(request.indexOf('\r\n\r\n') + 4));
}

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { DIALECTS } = await load('src/dialect/dialects.js');
  const { scanBody, translationOf } = await load('src/dialect/index.js');
  const casesOf = (dialect) => {
    const body = bodyOf(dialect);
    const translation = translationOf(DIALECTS[dialect]);
    const request = translation.request(body);
    return {
      [`${dialect}, scan`]: () => scanBody(body),
      // As in the gateway: the body was scanned just before, and its memory is given back when it is sent.
      [`${dialect}, scan and translate`]: () => {
        scanBody(body);
        const translated = translation.request(body);
        translated.giveBack();
        return translated;
      },
      [`${dialect}, parse and stringify`]: () => Buffer.from(JSON.stringify(JSON.parse(body.toString()))),
      [`${dialect}, answer`]: () => request.answer().whole(answer),
      [`${dialect}, stream`]: () => {
        const translator = request.answer();
        for (const piece of events) translator.events(piece);
        return translator.end();
      },
    };
  };
  return { ...casesOf('messages'), ...casesOf('responses') };
}
