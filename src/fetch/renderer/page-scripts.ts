// Scripts that run in pages: how far a page is, and what it shows. They run in a world of their own, whose globals the scripts of the
// page cannot change. A page can hide the properties of its nodes behind names of its form fields, so accessors are called directly.

/** Takes `RTCPeerConnection` away before any script of a page runs: a second line behind the flag of the browser. */
export const REMOVE_WEBRTC = `for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'RTCDataChannel'])
  try { delete globalThis[name]; } catch {}`;

const ACCESSORS = `const accessor = (type, name) => Object.getOwnPropertyDescriptor(type.prototype, name).get;
  const rootOf = accessor(Document, 'documentElement');
  const readyState = accessor(Document, 'readyState');
  const childNodes = accessor(Node, 'childNodes');
  const nodeType = accessor(Node, 'nodeType');
  const localName = accessor(Element, 'localName');
  const shadowRoot = accessor(Element, 'shadowRoot');
  const attributes = accessor(Element, 'attributes');
  const innerText = accessor(HTMLElement, 'innerText');
  const all = (node) => (node instanceof Document ? Document : Element).prototype.querySelectorAll.call(node, '*');`;

/** Says how far the page is; the first call begins to watch it. The result is a `PageState`. */
export const PAGE_STATE = `(() => {
  ${ACCESSORS}
  const watch = (globalThis.watch ??= (() => {
    const made = { changedMs: performance.now() };
    new MutationObserver(() => { made.changedMs = performance.now(); })
      .observe(document, { subtree: true, childList: true, characterData: true });
    return made;
  })());
  const root = rootOf.call(document);
  return {
    isLoaded: readyState.call(document) === 'complete',
    quietMs: performance.now() - watch.changedMs,
    characters: root instanceof HTMLElement ? innerText.call(root).length : 0,
  };
})()`;

export interface PageState {
  readonly isLoaded: boolean;
  /** Since the last change of the document. */
  readonly quietMs: number;
  /** Of the text that is shown. */
  readonly characters: number;
}

/**
 * The document as HTML, with the contents of open shadow roots in place: `{ url, html }`, `html` null when it is longer than
 * `maxCharacters`. Without recursion: scripts make documents of any depth.
 */
export function snapshotOf(maxCharacters: number): string {
  return `(() => {
  ${ACCESSORS}
  const max = ${maxCharacters};
  const url = location.href;
  const root = rootOf.call(document);
  if (!(root instanceof Element)) return { url, html: '' };
  let shadows = false;
  for (const element of all(document)) if (shadowRoot.call(element) !== null) { shadows = true; break; }
  if (!shadows) {
    const html = accessor(Element, 'outerHTML').call(root);
    return { url, html: html.length > max ? null : html };
  }
  const data = accessor(CharacterData, 'data');
  const VOID = new Set('area base br col embed hr img input link meta source track wbr'.split(' '));
  const RAW = new Set('script style xmp iframe noembed noframes plaintext noscript'.split(' '));
  const escape = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const contents = (element) => {
    const shadow = shadowRoot.call(element);
    if (shadow !== null) return childNodes.call(shadow);
    if (element instanceof HTMLSlotElement) {
      const assigned = HTMLSlotElement.prototype.assignedNodes.call(element);
      if (assigned.length > 0) return assigned;
    }
    return childNodes.call(element);
  };
  const pieces = [];
  let length = 0;
  const add = (piece) => { length += piece.length; pieces.push(piece); };
  const stack = [[root, false]];
  while (stack.length > 0) {
    if (length > max) return { url, html: null };
    const [item, isRaw] = stack.pop();
    if (typeof item === 'string') { add(item); continue; }
    const type = nodeType.call(item);
    if (type === 3) { const text = data.call(item); add(isRaw ? text : escape(text)); continue; }
    if (type !== 1) continue;
    const name = localName.call(item);
    let tag = '<' + name;
    for (const { name: key, value } of attributes.call(item))
      tag += ' ' + key + '="' + value.replaceAll('&', '&amp;').replaceAll('"', '&quot;') + '"';
    add(tag + '>');
    if (VOID.has(name)) continue;
    stack.push(['</' + name + '>', false]);
    const raw = RAW.has(name);
    const inside = contents(item);
    for (let at = inside.length - 1; at >= 0; at--) stack.push([inside[at], raw]);
  }
  return { url, html: pieces.join('') };
})()`;
}

/**
 * Tells whether the browser sends UDP past its proxy: it offers an address of its own to a peer. Resolves with `offered`, `silent`, or
 * `absent` for a browser without WebRTC. Asks for a loopback address on the way, which must arrive at the proxy.
 */
export const PROBE_SCRIPT = `(async () => {
  await fetch('http://127.0.0.1/probe').catch(() => undefined);
  if (typeof RTCPeerConnection !== 'function') return 'absent';
  const peer = new RTCPeerConnection({ iceServers: [] });
  const found = new Promise((resolve) => {
    peer.addEventListener('icecandidate', ({ candidate }) => resolve(candidate?.candidate ? 'offered' : 'silent'));
    setTimeout(() => resolve('silent'), 2000);
  });
  peer.createDataChannel('probe');
  await peer.setLocalDescription(await peer.createOffer());
  const outcome = await found;
  peer.close();
  return outcome;
})()`;
