// Site adapter `stack-exchange`: a question with its comments, and its answers by votes with the accepted one marked.

import type { PageElement } from './element.ts';
import type { SiteAdapter } from './site.ts';
import { comments, detail, heading, paragraph, post } from './thread.ts';

export const stackExchange: SiteAdapter = {
  name: 'stack-exchange',
  reads: 'questions with comments, answers by votes, accepted answers',
  hosts: [
    'stackoverflow.com', '.stackoverflow.com', '.stackexchange.com', 'superuser.com', 'serverfault.com', 'askubuntu.com',
    'mathoverflow.net', 'stackapps.com',
  ], // oxfmt-ignore
  paths: /^\/(?:questions|q)\/\d+/,
  read({ root }) {
    const title = root.first('#question-header h1, h1')?.line ?? '';
    const question = root.first('#question');
    if (question === null || question.first('.js-post-body, .post-text') === null) return null;
    const answers = root
      .outermost('#answers .answer')
      .toSorted((left, right) => scoreOf(right) - scoreOf(left))
      .map(written);
    const tags = [...new Set(question.all('.post-tag').map((tag) => tag.line))];
    return {
      title,
      html: [
        heading(1, title),
        detail(paragraph(tags.length === 0 ? '' : `Tags: ${tags.join(', ')}`)),
        written(question),
        answers.length === 0 ? '' : heading(2, answers.length === 1 ? '1 answer' : `${answers.length} answers`),
        ...answers,
      ].join(''),
    };
  },
};

function written(element: PageElement): string {
  // The last signature is the author's; one before it is an editor's.
  const signature = element.all('.post-signature').at(-1) ?? element;
  const isAccepted = element.attribute('class').split(/\s+/).includes('accepted-answer');
  const text = post({
    author: signature.first('.user-details a, .user-details span')?.line ?? '',
    date: signature.first('.relativetime')?.attribute('title') ?? '',
    score: `${scoreOf(element)} votes`,
    mark: isAccepted ? 'accepted' : '',
    isAnswer: true,
    body: element.first('.js-post-body, .post-text')?.html() ?? '',
  });
  const remarks = element.outermost('.comment').map((comment) => ({
    author: comment.first('.comment-user')?.line ?? '',
    date: comment.first('.relativetime-clean')?.attribute('title') ?? '',
    score: comment.first('.comment-score span')?.line ?? '',
    body: comment.first('.comment-copy')?.html() ?? '',
  }));
  return text + detail(comments(remarks));
}

function scoreOf(element: PageElement): number {
  const given = element.attribute('data-score') || element.first('.js-vote-count')?.line || '0';
  return Number(given.replaceAll(/[^\d-]/g, '')) || 0;
}
