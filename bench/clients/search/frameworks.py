"""Frameworks on top of the clients: LangChain's tools of Tavily and SearXNG, LlamaIndex's reader of Firecrawl."""

import json
import os
import traceback
import warnings

warnings.filterwarnings("ignore")

from langchain_community.utilities import SearxSearchWrapper
from langchain_tavily import TavilyExtract, TavilySearch
from llama_index.readers.web import FireCrawlWebReader

BASE, KEY, SITE = os.environ["BASE_URL"], os.environ["KEY"], os.environ["SITE"]
PAGE = f"{SITE}/article"
TAVILY = {"tavily_api_key": KEY, "api_base_url": f"{BASE}/tavily"}


def case(client, title, run):
    error = None
    try:
        run()
    except Exception:
        error = traceback.format_exc()
    print(json.dumps({"client": client, "title": title, "error": error}), flush=True)


def tavily_search():
    found = TavilySearch(max_results=2, **TAVILY).invoke({"query": "weirs", "time_range": "week"})
    assert len(found["results"]) == 2


def tavily_page():
    found = TavilyExtract(**TAVILY).invoke({"urls": [PAGE]})
    assert "A weir" in found["results"][0]["raw_content"]


def searxng_search():
    by_header = SearxSearchWrapper(searx_host=f"{BASE}/searxng/search", headers={"authorization": f"Bearer {KEY}"})
    found = by_header.results("weirs", num_results=4, categories=["news"])
    assert len(found) == 4 and found[0]["category"] == "news" and found[0]["engines"] == ["engine_a"]
    by_url = SearxSearchWrapper(searx_host=f"{BASE}/searxng".replace("://", f"://user:{KEY}@"), k=2)
    assert by_url.run("weirs") == "text 0\n\ntext 1"


def searxng_errors():
    try:
        SearxSearchWrapper(searx_host=f"{BASE}/searxng").run("weirs")
    except ValueError as error:
        assert "Not authenticated" in str(error)
        return
    raise AssertionError("no ValueError")


def reader(mode, params, **asked):
    firecrawl = FireCrawlWebReader(api_key=KEY, api_url=f"{BASE}/firecrawl", mode=mode, params=params)
    return firecrawl.load_data(**asked)


def firecrawl_search():
    found = reader("search", {"limit": 2}, query="weirs")
    assert [document.metadata["title"] for document in found] == ["Title 0", "Title 1"]


def firecrawl_page():
    found = reader("scrape", {"formats": ["markdown"]}, url=PAGE)
    assert "A weir" in found[0].text and found[0].metadata["title"] == "On weirs"


case("langchain-tavily", "search", tavily_search)
case("langchain-tavily", "page", tavily_page)
case("langchain-community SearXNG", "search", searxng_search)
case("langchain-community SearXNG", "errors", searxng_errors)
case("llama-index-readers-web", "search", firecrawl_search)
case("llama-index-readers-web", "page", firecrawl_page)
