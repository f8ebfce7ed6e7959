// Site adapter `discourse`: topics of Discourse forums, from the data of the page, from the page for readers without scripts,
// and from the JSON of a topic.

import { jsonOf } from '../state/literal.ts';
import { PageElement } from './element.ts';
import { at, listAt, textAt } from './json.ts';
import type { SiteAdapter, SiteContent } from './site.ts';
import { heading, post } from './thread.ts';

/** Text of other pages in previews of links, and sizes of images. */
const FOREIGN = '.onebox-body p, .onebox-body .label1, .lightbox .meta';

export const discourse: SiteAdapter = {
  name: 'discourse',
  reads: 'topics with their posts, also as `.json`',
  hosts: [],
  generator: /^Discourse\b/i,
  paths: /^\/(?:.+\/)?t\//,
  read({ root }) {
    const preloaded = jsonOf(root.first('[data-preloaded]')?.attribute('data-preloaded') ?? '');
    const [, topic] = Object.entries((preloaded ?? {}) as object).find(([name]) => name.startsWith('topic_')) ?? [];
    return topicOf(typeof topic === 'string' ? jsonOf(topic) : topic) ?? crawlerView(root);
  },
  readJson: topicOf,
};

function topicOf(value: unknown): SiteContent | null {
  const posts = listAt(value, 'post_stream', 'posts').filter((each) => textAt(each, 'cooked') !== '');
  const title = textAt(value, 'title');
  if (posts.length === 0 || title === '') return null;
  const written = posts.map((each) => {
    return post({
      author: textAt(each, 'username') || textAt(each, 'name'),
      date: textAt(each, 'created_at'),
      mark: at(each, 'accepted_answer') === true ? 'accepted' : '',
      body: PageElement.of(textAt(each, 'cooked')).html(FOREIGN),
    });
  });
  return { title, html: heading(1, title) + written.join('') };
}

function crawlerView(root: Parameters<SiteAdapter['read']>[0]['root']): SiteContent | null {
  const title = root.first('#topic-title h1, h1')?.line ?? '';
  const posts = root.outermost('.crawler-post');
  if (posts.length === 0 || title === '') return null;
  const written = posts.map((each) =>
    post({
      author: each.first('.creator [itemprop=name]')?.line ?? '',
      date: each.first('time')?.attribute('datetime') ?? '',
      body: each.first('.post')?.html(FOREIGN) ?? '',
    }),
  );
  return { title, html: heading(1, title) + written.join('') };
}
