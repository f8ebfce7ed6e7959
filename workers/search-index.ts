// Entry of the thread that holds the indexes of all folders that are searched.

import { type MessagePort, parentPort } from 'node:worker_threads';
import { lowerPriority } from '../src/actor/thread-priority.ts';
import { EngineError } from '../src/search/engine.ts';
import type { IndexCommand, IndexEvent } from '../src/search/engines/local/index-thread.ts';
import { IndexedFolder } from '../src/search/engines/local/indexed-folder.ts';
import type { IndexedFolderSettings } from '../src/search/engines/local.ts';

// Reading a folder takes minutes of CPU time, a search a millisecond.
lowerPriority();

const parent = parentPort as MessagePort;
const folders = new Map<string, IndexedFolder>();

parent.on('message', (command: IndexCommand) => {
  if (command.type === 'Find') void find(command);
  else keep(command.folders);
});

async function find({ folder, id, query }: Extract<IndexCommand, { type: 'Find' }>): Promise<void> {
  try {
    post({ type: 'Found', id, hits: await folderOf(folder).find(query) });
  } catch (error) {
    if (!(error instanceof EngineError)) post({ type: 'Notice', path: folder.path, sentence: String(error) });
    post({ type: 'Failed', id, failure: error instanceof EngineError ? error.failure : 'invalid' });
  }
}

function keep(settings: readonly IndexedFolderSettings[]): void {
  const kept = new Set(settings.map((each) => JSON.stringify(each)));
  for (const [key, folder] of folders) {
    if (kept.has(key)) continue;
    folder.close();
    folders.delete(key);
  }
  for (const each of settings) folderOf(each);
}

function folderOf(settings: IndexedFolderSettings): IndexedFolder {
  const key = JSON.stringify(settings);
  let folder = folders.get(key);
  if (folder === undefined) {
    folder = new IndexedFolder(settings, {
      onNotice: (sentence) => post({ type: 'Notice', path: settings.path, sentence }),
    });
    folders.set(key, folder);
    post({ type: 'Building' });
    void folder.built.then(() => post({ type: 'Built' }));
  }
  return folder;
}

function post(event: IndexEvent): void {
  parent.postMessage(event);
}
