// Headings that announce boilerplate (related articles, comments, newsletters), in the languages of most pages. Matches whole
// normalised lines or their beginnings.

/** Beginnings of boilerplate headings. */
const SECTIONS = [
  // English
  'related', 'you may also', 'you might also', 'you may like', 'you might like', 'more from', 'more stories', 'more news', 'more in', 'more on', 'more to read', 'more like this',
  'recommended', 'recommendations', 'read next', 'up next', 'what to read next', 'keep reading', 'also read', 'read also', 'see also:', 'latest news', 'latest posts',
  'latest articles', 'latest from', 'latest stories', 'recent posts', 'recent articles', 'recent news', 'most read', 'most popular', 'popular posts', 'popular articles', 'trending',
  'similar', 'customers also', 'customers who', 'people also', 'others also', 'frequently bought', 'recently viewed', 'leave a reply', 'leave a comment', 'leave comment', 'post a comment', 'add a comment', 'add comment', 'write a comment', 'join the conversation', 'join the discussion',
  'share this', 'share on', 'share article', 'follow us', 'stay connected', 'stay up to date', 'stay in the loop', 'stay informed', 'subscribe to', 'subscribe now', 'sign up', 'newsletter', 'get our newsletter', 'get the newsletter',
  'about the author', 'about author', 'about the writer', 'written by', 'advertisement', 'sponsored', 'partner content', 'cookie', 'privacy preference', 'we value your privacy', 'your privacy', 'customer reviews', 'editors\' picks', 'editor\'s picks', 'explore more', 'discover more', 'topics:', 'filed under', 'tags:', 'download our app', 'popular in', 'top stories', 'get in touch with us', 'comments are closed', 'no comments', 'post navigation', 'previous post', 'next post',
  // German
  'das könnte', 'auch interessant', 'mehr zum thema', 'mehr zu', 'mehr aus', 'mehr von', 'ähnliche', 'weitere artikel', 'weitere beiträge', 'weitere themen', 'weitere nachrichten', 'weitere meldungen', 'weitere news', 'lesen sie auch', 'lesen sie mehr', 'lies auch', 'passend dazu', 'passende artikel', 'verwandte', 'neueste', 'neuste', 'letzte beiträge', 'aktuelle beiträge', 'beliebte', 'meistgelesen', 'meist gelesen', 'zum thema', 'kommentar schreiben', 'kommentar verfassen', 'schreibe einen kommentar', 'hinterlasse', 'kommentieren', 'teilen', 'artikel teilen', 'beitrag teilen', 'diesen artikel', 'diesen beitrag', 'über den autor', 'über die autor', 'über autor', 'der autor', 'die autorin', 'anzeige', 'empfehlungen', 'empfohlen', 'kunden kauften', 'kunden haben', 'zuletzt angesehen', 'jetzt teilen', 'folgen sie', 'folge uns', 'schlagwörter', 'themen:', 'stichworte', 'beitrags-navigation', 'beitragsnavigation', 'jetzt anmelden', 'wird oft zusammen', 'auch spannend', 'unsere empfehlung', 'top-themen', 'diskutieren sie',
  // French
  'à lire aussi', 'a lire aussi', 'lire aussi', 'articles similaires', 'articles liés', 'sur le même', 'à découvrir', 'à voir aussi', 'dans la même', 'laisser un commentaire', 'laissez un commentaire', 'partager', 'vous aimerez', 'les plus lus', 'derniers articles', 'inscrivez-vous', 'suivez-nous', 'abonnez-vous',
  // Spanish, Portuguese, Italian
  'noticias relacionadas', 'artículos relacionados', 'articulos relacionados', 'te puede interesar', 'también te puede', 'le puede interesar', 'lea también', 'lee también', 'más noticias', 'más leíd', 'lo más', 'deja un comentario', 'deja una respuesta', 'compartir', 'leia também', 'leia mais', 'veja também', 'notícias relacionadas', 'artigos relacionados', 'mais lidas', 'deixe um comentário', 'deixe uma resposta', 'compartilhe', 'leggi anche', 'articoli correlati', 'potrebbe interessarti', 'ti potrebbe', 'lascia un commento', 'condividi', 'i più letti',
  // Dutch, Nordic, Polish, Czech, Turkish
  'lees ook', 'lees meer', 'gerelateerd', 'meest gelezen', 'reageer', 'deel dit', 'läs även', 'läs också', 'läs mer', 'mest lästa', 'les også', 'læs også', 'zobacz także', 'zobacz też', 'zobacz również', 'czytaj także', 'czytaj też', 'przeczytaj także', 'podobne', 'powiązane', 'polecane', 'najnowsze', 'dodaj komentarz', 'udostępnij', 'mohlo by vás', 'související', 'ilgili haberler', 'bunlar da ilginizi',
  // Russian, Ukrainian
  'читайте также', 'читать также', 'похожие', 'смотрите также', 'рекомендуем', 'комментарии', 'оставить комментарий', 'добавить комментарий', 'поделиться', 'популярное', 'последние новости', 'читайте також', 'схожі', 'коментарі',
  // Chinese, Japanese, Korean
  '相关', '相關', '推荐', '推薦', '延伸阅读', '延伸閱讀', '热门', '熱門', '评论', '評論', '网友评论', '関連', 'おすすめ', 'オススメ', '人気記事', 'コメント', 'あわせて読みたい', '最新記事', '관련', '추천', '댓글', '인기',
  // Arabic, Persian, Greek, Vietnamese, Indonesian
  'مقالات ذات صلة', 'اقرأ أيضا', 'اقرأ أيضًا', 'مواضيع ذات', 'التعليقات', 'مطالب مرتبط', 'σχετικά άρθρα', 'διαβάστε επίσης', 'διαβάστε ακόμα', 'bài viết liên quan', 'tin liên quan', 'có thể bạn', 'baca juga', 'artikel terkait', 'berita terkait',
]; // oxfmt-ignore

/** Boilerplate headings that must be the whole line. */
const WHOLE_SECTIONS: ReadonlySet<string> = new Set([
  'comments', 'comment', 'reviews', 'share', 'tags', 'topics', 'categories', 'author', 'authors', 'see also', 'read more', 'more', 'links', 'follow', 'subscribe', 'popular', 'latest', 'recent', 'kommentare', 'kommentar', 'autor', 'tags', 'kategorien', 'mehr', 'links', 'schlagworte', 'commentaires', 'comentarios', 'comentários', 'commenti', 'reacties', 'kommentarer', 'komentarze', 'diskussion', 'drucken', 'print',
]); // oxfmt-ignore

const START = 3;
const BY_START = byStart(SECTIONS);
const MAX_PHRASE = Math.max(...SECTIONS.map((phrase) => phrase.length));
const ORNAMENTS = Array.from('.,»›>#|•–—-', (character) => character.charCodeAt(0));

/** Longer lines are not compared with whole lines. */
const MAX_WHOLE = 24;

/** Whether a heading announces boilerplate. `line` is the text of the page, not normalised. */
export function announcesBoilerplate(line: string): boolean {
  let start = 0;
  while (start < line.length && isOrnament(line.charCodeAt(start))) start++;
  if (line.length - start <= MAX_WHOLE) {
    const whole = normalised(line.slice(start)).replace(/[\s:()\d.»›>]+$/, '');
    if (WHOLE_SECTIONS.has(whole)) return true;
  }
  const opening = normalised(line.slice(start, start + START));
  const phrases = BY_START.get(opening) ?? BY_START.get(opening.slice(0, 2));
  if (phrases === undefined) return false;
  const text = normalised(line.slice(start, start + MAX_PHRASE));
  return phrases.some((phrase) => text.startsWith(phrase));
}

function normalised(text: string): string {
  return text.toLowerCase().replaceAll('’', "'");
}

/** Digits, white space and punctuation before a heading. */
function isOrnament(code: number): boolean {
  if (code < 0x80) return code <= 0x20 || (code >= 0x30 && code <= 0x39) || ORNAMENTS.includes(code);
  return code === 0xa0 || ORNAMENTS.includes(code);
}

/** Groups phrases by their first characters, so that few are compared. */
function byStart(phrases: readonly string[]): ReadonlyMap<string, readonly string[]> {
  return Map.groupBy(phrases, (phrase) => phrase.slice(0, START));
}
