// Hints about the role of an element in its page, as bit flags, from class, id, ARIA role and schema.org microdata. Names are
// split into words that are looked up, which is linear, and results are cached per page, since pages repeat their classes.

/** Menus, breadcrumbs, pagers, tables of contents. */
export const NAVIGATION: number = 1 << 0;
export const ADVERT: number = 1 << 1;
/** Consent to cookies. */
export const CONSENT: number = 1 << 2;
/** Dialogs, sign-in walls. */
export const OVERLAY: number = 1 << 3;
export const SHARE: number = 1 << 4;
/** Recommended pages. */
export const RELATED: number = 1 << 5;
export const COMMENTS: number = 1 << 6;
export const NEWSLETTER: number = 1 << 7;
export const FOOTER: number = 1 << 8;
export const SIDEBAR: number = 1 << 9;
/** Dates, tags, bylines, counts. */
export const META: number = 1 << 10;
/** Not displayed. */
export const HIDDEN: number = 1 << 11;
/** For screen readers or print only. */
export const UNSEEN: number = 1 << 12;
/** Likely to hold the content. */
export const CONTENT: number = 1 << 13;
/** The body of an article, by microdata or an unambiguous name. */
export const BODY: number = 1 << 14;
export const MAIN: number = 1 << 15;
/** Buttons, tools, forms. */
export const CONTROL: number = 1 << 16;
/** About the author. */
export const AUTHOR: number = 1 << 17;
/** Customer reviews. */
export const REVIEWS: number = 1 << 18;
/** The lead of an article. */
export const LEAD: number = 1 << 19;
/** Captions and credits of images. */
export const CAPTION: number = 1 << 20;
export const CAROUSEL: number = 1 << 21;
/** Disclaimers, footnotes. */
export const LEGAL: number = 1 << 22;
/** Cards, products, items of a list. */
export const ITEMS: number = 1 << 23;
/** Tabs, accordions, questions with answers. */
export const TABS: number = 1 << 24;
/** The dialog of a known consent manager. */
export const CONSENT_DIALOG: number = 1 << 25;

const WORDS: ReadonlyMap<string, number> = new Map(
  (
    [
      [NAVIGATION, 'nav navbar navigation navi menu menus submenu megamenu breadcrumb breadcrumbs crumbs pager pagination paginator paging toc sitemap skiplink skip topbar hamburger dropdown offcanvas navlinks'],
      [ADVERT, 'ad ads adv advert adverts advertisement advertising adsense adslot adunit adbox adwrapper adcontainer sponsor sponsored sponsors sponsorship outbrain taboola promo promos promotion promoted dfp gpt teads anzeige anzeigen werbung publicidad publicite pubblicita reklama merch fanshop'],
      [CONSENT, 'cookie cookies consent gdpr ccpa onetrust cookiebar cookiebanner cook cookielaw dsgvo didomi cmp cookieconsent truste usercentrics'],
      [OVERLAY, 'popup popups popover modal interstitial toast tooltip login signin signup register dialog drawer flyout'],
      [SHARE, 'share shares sharing sharebar sharedaddy social socials addthis addtoany sharethis shareaholic follow facebook twitter whatsapp pinterest linkedin instagram'],
      [RELATED, 'infobox factbox related recommend recommended recommendation recommendations recirc recirculation upsell crosssell popular trending mostread readmore yarpp teaser teasers similar suggested suggestions latest zergnet morestories alsolike nextprev upnext recommends newsfeed relatedposts crp empfehlung empfehlungen verwandte readnext nextpost prevnext nextprevious linkliste linklist bestseller bestsellers recentposts recentlyviewed'],
      [COMMENTS, 'comment comments commentlist kommentar kommentare commentaires comentarios kommentarer disqus respond livefyre commenting commentform reagir reacties comentario yorum yorumlar discussion responses reactions'],
      [NEWSLETTER, 'newsletter newsletters subscribe subscription mailchimp optin signupform mailing donate donation'],
      [FOOTER, 'footer foot colophon copyright siteinfo bottombar footnav'],
      [SIDEBAR, 'sidebar side aside rail complementary sidebars rightcol leftcol rightbar leftbar rightrail'],
      [META, 'meta byline dateline tags taglist categories timestamp postinfo cats published pubdate metadata infoline postmeta readtime utility postmetadata tagcloud'],
      [AUTHOR, 'author authors bio autor autoren autorenbox authorbox authorbio saboxplugin vcard auteur contributor'],
      [UNSEEN, 'visuallyhidden screenreader assistive noprint printonly'],
      [CONTENT, 'content article post entry body story text blog main column page description summary detail details documentation docs doc markdown prose wysiwyg richtext rte copy paragraph lead excerpt'],
      [CONTROL, 'toolbar tools button buttons btn btns controls search searchform searchbox form filter filters sort sorting facet facets rating ratings stars vote votes voting like likes cart wishlist checkout add actions action quantity qty swatch print'],
      [REVIEWS, 'review reviews yotpo bazaarvoice trustpilot judgeme okendo stamped loox powerreviews testimonials qa qanda'],
      [LEAD, 'lead lede intro introduction standfirst subtitle subheadline subline dek deck excerpt abstract vorspann chapo entradilla summary kicker'],
      [CAPTION, 'caption captions figcaption figure credit credits attribution bildunterschrift legende embed embedded attachment attachments'],
      [CAROUSEL, 'carousel slider slick swiper glide gallery galleries slide slides slideshow splide flickity'],
      [LEGAL, 'disclaimer disclaimers disclosure disclosures footnote footnotes legal terms'],
      [ITEMS, 'card cards grid tile tiles item items list listing listings product products results result'],
      [TABS, 'tab tabs tabpanel accordion accordions collapse collapsible expandable faq faqs'],
    ] as const
  ).flatMap(([hint, words]) => words.split(' ').map((word) => [word, hint] as const)),
); // oxfmt-ignore

/** Names that single words do not identify. Compared whole, in lower case, without separators. */
const NAMES: ReadonlyMap<string, number> = new Map(
  (
    [
      [BODY, 'articlebody entrycontent postcontent articlecontent storybody storycontent postbody contentbody bodycontent mwparseroutput articletext blogpostcontent bloggpostbody maincontentbody postarticle articlebodycontent blogcontent newscontent newsbody mwcontenttext'],
      [SIDEBAR, 'widget widgets widgetarea sidebarwidget footerwidget secondary'],
      [META, 'signature messagesignature userextras messageuserextras messageusertitle postprofile messageuserdetails userstats'],
      [UNSEEN, 'sronly screenreadertext visuallyhidden ahidden hiddentext offscreen'],
      [CONSENT_DIALOG, 'onetrustconsentsdk onetrustbannersdk onetrustpcsdk cybotcookiebotdialog didomihost didomipopup usercentricsroot qccmpcontainer qccmpmain cookielawinfobar clisettingspopup cmplzcookiebannercontainer iubendacsbanner osanocmwindow ckyconsentcontainer ckymodal moovegdprcookieinfobar moovegdprcookiemodal borlabscookiebox cookiescriptinjected tarteaucitronroot fcconsentroot spmessagecontainer hseucookieconfirmation shopifypcbannerwrapper axeptiooverlay cmpbox cmpwrapper fidesoverlay'],
    ] as const
  ).flatMap(([hint, names]) => names.split(' ').map((name) => [name, hint] as const)),
); // oxfmt-ignore

/** First words of names that describe a state or layout rather than the element. */
const MODIFIERS: ReadonlySet<string> = new Set('has no with without is js not show hide lg md sm xs xl'.split(' '));

const ROLES: ReadonlyMap<string, number> = new Map([
  ['navigation', NAVIGATION],
  ['menu', NAVIGATION],
  ['menubar', NAVIGATION],
  ['directory', NAVIGATION],
  ['main', MAIN],
  ['article', CONTENT],
  ['contentinfo', FOOTER],
  ['complementary', SIDEBAR],
  ['search', CONTROL],
  ['toolbar', CONTROL],
  ['dialog', OVERLAY],
  ['alertdialog', OVERLAY],
  ['tooltip', OVERLAY],
  ['button', CONTROL],
]);

const MICRODATA_PROPERTIES: ReadonlyMap<string, number> = new Map([
  ['articlebody', BODY],
  ['text', CONTENT],
  ['description', CONTENT],
  ['maincontentofpage', CONTENT],
  ['breadcrumb', NAVIGATION],
  ['comment', COMMENTS],
]);

const MICRODATA_TYPES: ReadonlyMap<string, number> = new Map([
  ['article', CONTENT],
  ['newsarticle', CONTENT],
  ['blogposting', CONTENT],
  ['techarticle', CONTENT],
  ['recipe', CONTENT],
  ['comment', COMMENTS],
  ['breadcrumblist', NAVIGATION],
  ['sitenavigationelement', NAVIGATION],
]);

/** Longer attributes are cut here. */
const MAX_NAME_CHARACTERS = 512;

/** Hints by name, for one page. */
export class HintTable {
  readonly #known = new Map<string, number>();
  readonly #shapes = new Map<string, number>();

  /** The number of a `class` attribute, from 1. */
  shapeOf(names: string): number {
    const known = this.#shapes.get(names);
    if (known !== undefined) return known;
    this.#shapes.set(names, this.#shapes.size + 1);
    return this.#shapes.size;
  }

  /** Hints of a `class` or `id` attribute. */
  ofNames(names: string): number {
    const known = this.#known.get(names);
    if (known !== undefined) return known;
    let hints = 0;
    const length = Math.min(names.length, MAX_NAME_CHARACTERS);
    for (let start = 0, at = 0; at <= length; at++) {
      if (at < length && !isSpace(names.charCodeAt(at))) continue;
      if (at > start) hints |= hintsOfName(names.slice(start, at));
      start = at + 1;
    }
    this.#known.set(names, hints);
    return hints;
  }
}

export function hintsOfRole(role: string): number {
  return ROLES.get(role.trim().toLowerCase()) ?? 0;
}

export function hintsOfItemprop(names: string): number {
  let hints = 0;
  for (const name of names.toLowerCase().split(/\s+/, 8)) hints |= MICRODATA_PROPERTIES.get(name) ?? 0;
  return hints;
}

export function hintsOfItemtype(types: string): number {
  let hints = 0;
  for (const type of types.toLowerCase().split(/\s+/, 8))
    hints |= MICRODATA_TYPES.get(type.slice(type.lastIndexOf('/') + 1)) ?? 0;
  return hints;
}

/** White space between names, as HTML has it, and the no-break space. */
function isSpace(code: number): boolean {
  return code <= 0x20 || code === 0xa0;
}

const OTHER = 0;
const LOWER = 1;
const UPPER = 2;
const DIGIT = 3;

/** Splits "widthAuto", "post-body" and "HTMLBlock" into words of Latin letters, which are looked up. */
function hintsOfName(name: string): number {
  let hints = 0;
  let whole = '';
  let start = -1;
  let before = OTHER;
  let isModified = false;
  for (let at = 0; at <= name.length; at++) {
    const kind = at < name.length ? kindOf(name.charCodeAt(at)) : OTHER;
    const isLetter = kind === LOWER || kind === UPPER;
    if (start >= 0 && (!isLetter || (kind === UPPER && before !== UPPER))) {
      const word = name.slice(start, at).toLowerCase();
      isModified ||= start === 0 && MODIFIERS.has(word);
      if (!isModified) hints |= WORDS.get(word) ?? 0;
      whole += word;
      start = -1;
    }
    if (isLetter && start < 0) start = at;
    before = kind;
  }
  return hints | (NAMES.get(whole) ?? 0);
}

function kindOf(code: number): number {
  if (code >= 0x61 && code <= 0x7a) return LOWER;
  if (code >= 0x41 && code <= 0x5a) return UPPER;
  return code >= 0x30 && code <= 0x39 ? DIGIT : OTHER;
}

/** Whether an element is not displayed before scripts have run, by its attributes. */
export function isUndisplayed(attributes: ReadonlyMap<string, string>): boolean {
  const hidden = attributes.get('hidden');
  if (hidden !== undefined && hidden !== 'until-found') return true;
  const style = attributes.get('style');
  return style !== undefined && /display\s*:\s*none|visibility\s*:\s*hidden/i.test(style);
}
