// Site adapter `youtube`: title, description, chapters of a video, and its transcript where the page has it.

import { escapeText } from 'entities';
import { assignedTo, at, listAt, membersNamed, textAt } from './json.ts';
import type { SiteAdapter } from './site.ts';
import { byline, heading, paragraphs } from './thread.ts';

const MAX_SEGMENTS = 20_000;

export const youtube: SiteAdapter = {
  name: 'youtube',
  reads: 'description, chapters, and the transcript where the page has it',
  hosts: ['youtube.com', '.youtube.com'],
  paths: /^\/(?:watch$|shorts\/|live\/)/,
  read({ head }) {
    const player = assignedTo('ytInitialPlayerResponse', head.scripts);
    const details = at(player, 'videoDetails');
    const title = textAt(details, 'title');
    if (title === '') return null;
    const data = assignedTo('ytInitialData', head.scripts);
    const video = at(player, 'microformat', 'playerMicroformatRenderer');
    const chapters = membersNamed(data, 'macroMarkersListItemRenderer').map((marker) =>
      [runs(at(marker, 'timeDescription')), runs(at(marker, 'title'))].join(' ').trim(),
    );
    const transcript = membersNamed(data, 'transcriptSegmentRenderer')
      .slice(0, MAX_SEGMENTS)
      .map((segment) => `<p>${escapeText(`${runs(at(segment, 'startTimeText'))} ${runs(at(segment, 'snippet'))}`.trim())}</p>`);
    return {
      title,
      html: [
        heading(1, title),
        byline({
          author: textAt(details, 'author'),
          date: textAt(video, 'publishDate'),
          score: durationOf(textAt(details, 'lengthSeconds')),
        }),
        paragraphs(textAt(details, 'shortDescription')),
        section('Chapters', [...new Set(chapters)].map((line) => `<p>${escapeText(line)}</p>`)),
        section('Transcript', transcript),
      ].join(''),
    };
  }, // oxfmt-ignore
};

function section(title: string, parts: readonly string[]): string {
  return parts.length === 0 ? '' : heading(2, title) + parts.join('');
}

/** A text in one of the two shapes that YouTube uses. */
function runs(text: unknown): string {
  return (
    textAt(text, 'simpleText') ||
    listAt(text, 'runs')
      .map((run) => textAt(run, 'text'))
      .join('')
  );
}

/** `3725` as `1:02:05`. */
function durationOf(seconds: string): string {
  const total = Number(seconds);
  if (seconds === '' || !Number.isSafeInteger(total)) return '';
  const parts = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  const [first = 0, ...rest] = total >= 3600 ? parts : parts.slice(1);
  return [String(first), ...rest.map((part) => String(part).padStart(2, '0'))].join(':');
}
