// Priority of threads whose work can wait. Threads of one process share its cores: one that reads a page or builds an index would hold up
// requests for a time slice of the kernel, about 3 ms.

import { readlinkSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { isMainThread } from 'node:worker_threads';

/** Added to the nice value of the thread, which is at most 19. Against a thread that does not wait it gets a tenth of a core. */
const NICE = 10;
const MOST_NICE = 19;

/** On Linux the calls for processes take the id of a thread. */
const THREAD = /\/task\/(\d+)$/;

/**
 * Lowers the priority of this thread and of those that it starts, for good. To be called by a thread of the gateway's own: the main
 * thread is the embedder's. Only Linux has priorities of threads; elsewhere, and without `/proc`, nothing happens.
 */
export function lowerPriority(): void {
  if (isMainThread || process.platform !== 'linux') return;
  try {
    const thread = Number(THREAD.exec(readlinkSync('/proc/thread-self'))?.[1]);
    if (thread > 0) setPriority(thread, Math.min(getPriority(thread) + NICE, MOST_NICE));
  } catch {
    // The thread works on with the priority that it has.
  }
}
