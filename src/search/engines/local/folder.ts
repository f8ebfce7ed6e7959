// Lists the files of a folder with their versions, and reads them as text. Nothing outside of the folder is ever opened,
// whatever links in it point to.

import { constants, type Dirent, type Stats } from 'node:fs';
import { open, readdir, realpath, stat } from 'node:fs/promises';
import { extname, join, relative, sep } from 'node:path';

/** How a file is read: by its extension. */
export type FileFormat = 'markdown' | 'html' | 'text' | 'jsonl';

const FORMATS: Readonly<Record<string, FileFormat>> = {
  '.md': 'markdown',
  '.markdown': 'markdown',
  '.html': 'html',
  '.htm': 'html',
  '.txt': 'text',
  '.jsonl': 'jsonl',
  '.ndjson': 'jsonl',
};

export interface FolderFile {
  /** From the folder, with `/` between the names. */
  readonly path: string;
  readonly format: FileFormat;
  /** Where the bytes are: inside the folder, free of links. */
  readonly realPath: string;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  /** Which file it is, whatever its path. */
  readonly inode: string;
  /** Differs whenever the content may differ. */
  readonly version: string;
}

export interface FolderLimits {
  readonly maxFiles: number;
  /** All files together. */
  readonly maxBytes: number;
}

export interface FolderListing {
  /** By path, so that limits leave out the same files every time. */
  readonly files: readonly FolderFile[];
  /** Files of a known format that the limits left out. */
  readonly leftOut: number;
}

/** Longer files might make no string (2^29 - 24 characters). */
const MAX_FILE_BYTES = 2 ** 28;

/** Entries of any kind read in one listing: a folder such as `/` must not keep the engine busy for minutes. */
const MAX_ENTRIES = 200_000;
const MAX_DEPTH = 32;

/**
 * Lists the readable files below `root`. Hidden names are skipped, links to folders too; a link to a file counts when the
 * file is inside `root`. Rejects when `root` cannot be read; what vanishes meanwhile is left out.
 */
export async function listFolder(root: string, limits: FolderLimits): Promise<FolderListing> {
  const realRoot = await realpath(root);
  const found: FolderFile[] = [];
  const pending = [{ folder: realRoot, entries: await readdir(realRoot, { withFileTypes: true }), depth: 0 }];
  let seen = 0;
  for (let next = pending.pop(); next !== undefined && seen < MAX_ENTRIES; next = pending.pop()) {
    const { folder, depth } = next;
    const entries = next.entries.filter((entry) => !entry.name.startsWith('.')).slice(0, MAX_ENTRIES - seen);
    seen += next.entries.length;
    const files = await Promise.all(entries.map((entry) => inspect(realRoot, join(folder, entry.name), entry)));
    // A call does not take more than some 120,000 arguments.
    for (const file of files) if (file !== undefined) found.push(file);
    if (depth === MAX_DEPTH) continue;
    for (const entry of entries.filter((candidate) => candidate.isDirectory())) {
      const path = join(folder, entry.name);
      const inside = await readdir(path, { withFileTypes: true }).catch(() => []);
      pending.push({ folder: path, entries: inside, depth: depth + 1 });
    }
  }
  return fit(found, limits);
}

async function inspect(realRoot: string, path: string, entry: Dirent): Promise<FolderFile | undefined> {
  const format = FORMATS[extname(entry.name).toLowerCase()];
  if (format === undefined || !(entry.isFile() || entry.isSymbolicLink())) return undefined;
  try {
    const realPath = entry.isSymbolicLink() ? await realpath(path) : path;
    if (!realPath.startsWith(realRoot.endsWith(sep) ? realRoot : realRoot + sep)) return undefined;
    const stats = await stat(realPath);
    if (!stats.isFile()) return undefined;
    const name = relative(realRoot, path).split(sep).join('/');
    const { size: sizeBytes, mtimeMs: modifiedMs } = stats;
    return { path: name, format, realPath, sizeBytes, modifiedMs, inode: inode(stats), version: version(stats) };
  } catch {
    return undefined;
  }
}

function inode({ dev, ino }: Stats): string {
  return `${dev}:${ino}`;
}

/** The change time catches a rewrite that sets the old modification time; the inode a replaced file. */
function version(stats: Stats): string {
  return `${stats.ino}:${stats.size}:${stats.mtimeMs}:${stats.ctimeMs}`;
}

function fit(found: FolderFile[], limits: FolderLimits): FolderListing {
  found.sort((a, b) => (a.path < b.path ? -1 : 1));
  const files: FolderFile[] = [];
  let bytes = 0;
  for (const file of found) {
    const isTooLarge = file.sizeBytes > MAX_FILE_BYTES || bytes + file.sizeBytes > limits.maxBytes;
    if (isTooLarge || files.length === limits.maxFiles) continue;
    files.push(file);
    bytes += file.sizeBytes;
  }
  return { files, leftOut: found.length - files.length };
}

/**
 * The text of a listed file, at most the size it was listed with; undefined when it is gone or another file has taken its place, which
 * may be outside: a folder above can become a link at any time.
 */
export async function readText(file: FolderFile): Promise<string | undefined> {
  try {
    const handle = await open(file.realPath, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      if (inode(await handle.stat()) !== file.inode) return undefined;
      const bytes = Buffer.alloc(file.sizeBytes);
      const { bytesRead } = await handle.read(bytes, 0, file.sizeBytes, 0);
      return new TextDecoder().decode(bytes.subarray(0, bytesRead));
    } finally {
      await handle.close();
    }
  } catch {
    return undefined;
  }
}
