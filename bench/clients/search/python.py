"""The Python clients of Tavily and Firecrawl. Each case prints a line of JSON; BASE_URL, SITE and KEY say whom to ask."""

import asyncio
import json
import os
import traceback

from firecrawl import Firecrawl
from firecrawl.v2.utils import error_handler as firecrawl_errors
from tavily import AsyncTavilyClient, BadRequestError, InvalidAPIKeyError, TavilyClient

BASE, KEY, SITE = os.environ["BASE_URL"], os.environ["KEY"], os.environ["SITE"]
PAGE = f"{SITE}/article"


def case(client, title, run):
    error = None
    try:
        run()
    except Exception:
        error = traceback.format_exc()
    print(json.dumps({"client": client, "title": title, "error": error}), flush=True)


def raises(kind, run):
    try:
        run()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


tavily = TavilyClient(KEY, api_base_url=f"{BASE}/tavily")


def tavily_search():
    found = tavily.search("weirs", max_results=3, include_raw_content="text", days=7, topic="news", country="germany")
    assert len(found["results"]) == 3
    assert found["results"][0]["raw_content"].startswith("A weir")
    assert len(asyncio.run(AsyncTavilyClient(KEY, api_base_url=f"{BASE}/tavily").search("weirs"))["results"]) == 5


def tavily_page():
    found = tavily.extract([PAGE, f"{SITE}/none"])
    assert "A weir" in found["results"][0]["raw_content"]
    assert "404" in found["failed_results"][0]["error"]


def tavily_errors():
    wrong = TavilyClient("hr_wrong", api_base_url=f"{BASE}/tavily")
    assert str(raises(InvalidAPIKeyError, lambda: wrong.search("weirs"))) == "Invalid API key"
    assert str(raises(BadRequestError, lambda: tavily.search("weirs", topic="sports"))).startswith("topic: ")


case("tavily-python", "search", tavily_search)
case("tavily-python", "page", tavily_page)
case("tavily-python", "errors", tavily_errors)

for url in (f"{BASE}/firecrawl", BASE):
    name = "firecrawl-py at the root" if url == BASE else "firecrawl-py"
    firecrawl = Firecrawl(api_key=KEY, api_url=url)

    def firecrawl_search():
        found = firecrawl.search("weirs", limit=2, scrape_options={"formats": ["markdown"]})
        assert len(found.web) == 2
        assert "A weir" in found.web[0].markdown
        assert firecrawl.search("weirs", limit=1, tbs="qdr:w").web[0].title == "Title 0"

    def firecrawl_page():
        found = firecrawl.scrape(PAGE, formats=["markdown", "html", "links"])
        assert "A weir" in found.markdown and "<p>A weir" in found.html
        assert found.links == [f"{SITE}/race"]
        assert found.metadata.title == "On weirs" and found.metadata.source_url == PAGE
        assert "A weir" in firecrawl.v1.scrape_url(PAGE, formats=["markdown"]).markdown

    def firecrawl_errors_raised():
        wrong = Firecrawl(api_key="hr_wrong", api_url=url)
        raises(firecrawl_errors.UnauthorizedError, lambda: wrong.scrape(PAGE))
        raises(firecrawl_errors.BadRequestError, lambda: firecrawl.scrape("http://[::1]/"))
        raises(firecrawl_errors.InternalServerError, lambda: firecrawl.scrape(f"{SITE}/none"))

    case(name, "search", firecrawl_search)
    case(name, "page", firecrawl_page)
    case(name, "errors", firecrawl_errors_raised)
