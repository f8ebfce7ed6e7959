// A page as news sites have them, for pictures of the dashboard: an article among menus, adverts and a notice of cookies.

export const SAMPLE_PAGE = `<!doctype html>
<html lang="en">
<head><title>The weir that lets fish pass | Millrace Courier</title><meta property="og:type" content="article"></head>
<body>
<div class="cookie-consent"><p>We use cookies to improve your visit.</p><button>Accept all</button></div>
<header><nav class="main-menu"><ul><li><a href="/">Home</a></li><li><a href="/rivers">Rivers</a></li>
<li><a href="/mills">Mills</a></li><li><a href="/power">Power</a></li></ul></nav></header>
<main><article>
<h1>The weir that lets fish pass</h1>
<p class="byline">By A. Miller, 12 May 2026</p>
<p>For a century the weir above the town mill held the river back, and with it the trout that travel up to spawn. This spring a ladder of
forty pools was opened beside it, and on its first night a counter registered more than three hundred fish.</p>
<div class="advert"><p>Advertisement: garden pumps at half price</p></div>
<h2>Forty small steps</h2>
<p>Each pool lies twelve centimetres above the one before it. Water falls through a notch that turns from side to side, so that a fish can
rest behind the wall before its next leap. The engineers gave the lowest pool a stronger current: fish find the ladder by it.</p>
<ul><li>Height of the weir: 4.8 metres</li><li>Flow of the ladder: 220 litres a second</li><li>Share of the river at low water: 9 %</li></ul>
<p>The mill loses some of its head race to the ladder. Its owner has agreed to close the turbine on nine nights of April and May, when most
fish are on their way; the town pays for the power that is not made.</p>
<h2>What comes next</h2>
<p>Two more weirs stand between the town and the source. If the counts stay as they are, the river board will decide on them in autumn.</p>
</article>
<aside class="related"><h3>Related articles</h3><ul><li><a href="/1">A turbine for low heads</a></li>
<li><a href="/2">Why mill ponds silt up</a></li></ul></aside></main>
<section class="newsletter"><h3>Newsletter</h3><p>The news of the river, every Friday in your inbox.</p></section>
<footer><p>© 2026 Millrace Courier · <a href="/imprint">Imprint</a> · <a href="/privacy">Privacy</a></p></footer>
</body></html>`;
