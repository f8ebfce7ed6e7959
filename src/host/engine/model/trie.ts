// A trie over the bytes of the vocabulary's pieces, in flat arrays: longest-match tokenization and grammar masks walk it.
// Node 0 is the root. Single bytes are not in it; each has a token by its value.
/** Trie over byte strings. Nodes are indexes into the arrays. */
export interface PieceTrie {
  /** Token that ends at this node, or -1. */
  readonly token: Int32Array;
  /** First child of a node, 0 when it has none. */
  readonly firstChild: Int32Array;
  /** Next child of the same parent, 0 after the last. */
  readonly nextSibling: Int32Array;
  /** Byte on the edge that leads to a node. */
  readonly edge: Uint8Array;
  /** Child of `node` over the byte of class c at `node * classCount + c`, 0 when there is none. */
  readonly child: Uint16Array;
  /** Class of each byte; bytes that occur in no piece share class 0, which has no children. */
  readonly classOf: Uint8Array;
  readonly classCount: number;
}

/** Most nodes a trie can have: children are 16-bit. */
const MAX_NODES = 65_536;

/** Builds the trie of the pieces longer than one byte; their index is their token. Throws a RangeError past 16 bits of nodes. */
export function createTrie(pieces: readonly Uint8Array[]): PieceTrie {
  const classOf = classesOf(pieces);
  const classCount = Math.max(...classOf) + 1;
  const capacity = 1 + pieces.reduce((sum, piece) => sum + piece.length, 0);
  const child = new Uint16Array(capacity * classCount);
  const token = new Int32Array(capacity).fill(-1);
  const edge = new Uint8Array(capacity);
  let nodes = 1;
  for (const [id, piece] of pieces.entries()) {
    if (piece.length < 2) continue;
    let node = 0;
    for (const byte of piece) {
      const at = node * classCount + classOf[byte]!;
      if (child[at] === 0) {
        if (nodes === MAX_NODES) throw new RangeError('too many pieces for the trie');
        edge[nodes] = byte;
        child[at] = nodes++;
      }
      node = child[at]!;
    }
    token[node] = id;
  }
  const links = linksOf(child.subarray(0, nodes * classCount), classCount, nodes);
  return {
    token: token.slice(0, nodes),
    edge: edge.slice(0, nodes),
    child: child.slice(0, nodes * classCount),
    classOf,
    classCount,
    ...links,
  };
}

function classesOf(pieces: readonly Uint8Array[]): Uint8Array {
  const used = new Set<number>();
  for (const piece of pieces) if (piece.length > 1) for (const byte of piece) used.add(byte);
  const classOf = new Uint8Array(256);
  for (const [at, byte] of [...used].sort((a, b) => a - b).entries()) classOf[byte] = at + 1;
  return classOf;
}

function linksOf(
  child: Uint16Array,
  classCount: number,
  nodes: number,
): { firstChild: Int32Array; nextSibling: Int32Array } {
  const firstChild = new Int32Array(nodes);
  const nextSibling = new Int32Array(nodes);
  for (let node = 0; node < nodes; node++) {
    for (let c = classCount - 1; c >= 0; c--) {
      const next = child[node * classCount + c]!;
      if (next === 0) continue;
      nextSibling[next] = firstChild[node]!;
      firstChild[node] = next;
    }
  }
  return { firstChild, nextSibling };
}
