"""The cases of one Python client of the messages dialect: `python python-messages.py CLIENT`. Prints one JSON line per case.

BASE_URL, KEY and MODEL are those of the gateway.
"""

import json
import os
import re
import sys
import traceback
from importlib.metadata import version

from pydantic import BaseModel

BASE_URL, KEY, MODEL = (os.environ[name] for name in ("BASE_URL", "KEY", "MODEL"))
WEATHER = {"Rome": "21 degrees", "Oslo": "3 degrees"}
RESULT = re.compile("21 degrees.*3 degrees")
THOUGHT = "The canal leads to the wheel."
PIXELS = "iVBORw0KGgo" * 8


class Report(BaseModel):
    city: str
    degrees: int


REPORT = Report(city="Rome", degrees=21)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"name": "get_weather", "description": "The weather of a city", "input_schema": SCHEMA}]


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r} is not {expected!r}")


def raises(run, pattern):
    try:
        run()
    except Exception as error:
        if not re.search(pattern, str(error)):
            raise
        return error
    raise AssertionError("no exception")


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def anthropic_cases():
    from anthropic import Anthropic, BadRequestError

    client = Anthropic(base_url=BASE_URL.removesuffix("/v1"), api_key=KEY, max_retries=0)

    def ask(content, **more):
        return {"model": MODEL, "max_tokens": 2048, "messages": [{"role": "user", "content": content}], **more}

    def create(content, **more):
        return client.messages.create(**ask(content, **more))

    def final(content, **more):
        with client.messages.stream(**ask(content, **more)) as stream:
            return stream.get_final_message()

    def loop(send):
        messages = [{"role": "user", "content": "What is the weather? think"}]
        first = send(None, messages=messages, tools=TOOLS)
        equal(first.stop_reason, "tool_use")
        calls = [block for block in first.content if block.type == "tool_use"]
        equal([call.input["city"] for call in calls], ["Rome", "Oslo"])
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": WEATHER[call.input["city"]]} for call in calls]
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
        text = text_of(send(None, messages=messages, tools=TOOLS))
        if not RESULT.search(text):
            raise AssertionError(f"{text!r} does not match")

    def text():
        message = create("Where?", system="Be brief.")
        equal(text_of(message), "Down the canal, as told: Be brief.")
        equal((message.usage.input_tokens, message.usage.cache_read_input_tokens), (8, 4))

    def stream():
        deltas = [event.delta.text for event in create("Where?", stream=True) if event.type == "content_block_delta"]
        equal("".join(deltas), "Down the canal.")
        with client.messages.stream(**ask("Where?")) as stream:
            equal("".join(stream.text_stream), "Down the canal.")
            equal(stream.get_final_message().usage.output_tokens, 6)

    def same():
        for prompt in ("Where?", "think: where?", "refuse", "limit"):
            whole, streamed = (json.loads(send(prompt).to_json()) for send in (create, final))
            for message in (whole, streamed):
                message.pop("id")
                for block in message["content"]:
                    block.pop("parsed_output", None)
            equal(streamed, whole)

    def structured():
        message = client.messages.parse(**ask("Rome?"), output_format=Report)
        equal(message.parsed_output, REPORT)

    def reasoning():
        message = final("think: where?", thinking={"type": "enabled", "budget_tokens": 1024})
        equal(message.content[0].thinking, THOUGHT)

    def recall():
        messages = ask("think: where?")["messages"]
        messages.append({"role": "assistant", "content": final("think: where?").content})
        messages.append({"role": "user", "content": "recall"})
        equal(text_of(client.messages.create(model=MODEL, max_tokens=2048, messages=messages)), f"You thought: {THOUGHT}")

    def images():
        source = {"type": "base64", "media_type": "image/png", "data": PIXELS}
        content = [{"type": "text", "text": "What?"}, {"type": "image", "source": source}]
        length = len("data:image/png;base64," + PIXELS)
        equal(text_of(create(content)), f"An image of {length} characters.")

    def limits():
        equal(final("refuse").stop_reason, "refusal")
        equal(create("limit").stop_reason, "max_tokens")

    def count():
        counted = client.messages.count_tokens(model=MODEL, messages=ask("Where?")["messages"])
        equal(counted.input_tokens > 0, True)

    def errors():
        for send in (create, final):
            error = raises(lambda: send("fail"), "too long")
            equal((type(error), error.status_code, error.body["error"]["type"]), (BadRequestError, 400, "invalid_request_error"))

    def broken():
        raises(lambda: final("break"), ".")
        raises(lambda: list(create("break", stream=True)), ".")

    return {
        "text": text,
        "stream": stream,
        "stream and whole": same,
        "tools": lambda: loop(lambda _, **request: client.messages.create(model=MODEL, max_tokens=2048, **request)),
        "streamed tools": lambda: loop(lambda _, **request: final(None, **request)),
        "structured output": structured,
        "reasoning": reasoning,
        "reasoning sent back": recall,
        "images": images,
        "refusals and limits": limits,
        "count_tokens": count,
        "errors": errors,
        "broken stream": broken,
    }


CASES = {"anthropic": anthropic_cases}

name = sys.argv[1]
for title, run in CASES[name]().items():
    error = None
    try:
        run()
    except Exception:
        error = traceback.format_exc()
    line = {"client": f"{name} (Python)", "version": version(name), "title": title, "error": error}
    print(json.dumps(line), flush=True)
