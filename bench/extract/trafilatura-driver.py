"""Reads pages as lines of JSON ({"html", "url"}) and writes one line for each: title, text and CPU time of trafilatura."""

import json
import sys
import time

import trafilatura

for line in sys.stdin:
    page = json.loads(line)
    start = time.process_time()
    found = trafilatura.bare_extraction(page["html"], url=page["url"] or None, with_metadata=True)
    answer = {"cpuMs": (time.process_time() - start) * 1000, "title": "", "content": ""}
    if found is not None:
        answer["title"] = found.title or ""
        answer["content"] = found.text or ""
    print(json.dumps(answer), flush=True)
