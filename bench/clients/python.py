"""The cases of one Python client: `python python.py CLIENT`. Prints one JSON line per case.

BASE_URL, KEY and MODEL are those of the gateway.
"""

import asyncio
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
IMAGE = "data:image/png;base64," + "iVBORw0KGgo" * 8


class City(BaseModel):
    city: str


class Report(BaseModel):
    city: str
    degrees: int


REPORT = Report(city="Rome", degrees=21)


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r} is not {expected!r}")


def matches(text):
    if not RESULT.search(text):
        raise AssertionError(f"{text!r} does not match")


def raises(run, pattern):
    try:
        run()
    except Exception as error:
        if not re.search(pattern, str(error)):
            raise
        return error
    raise AssertionError("no exception")


def openai_cases():
    from openai import OpenAI, pydantic_function_tool

    client = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0)
    function = pydantic_function_tool(City, name="get_weather")["function"]
    tools = [{"type": "function", **function}]

    def final(**request):
        with client.responses.stream(model=MODEL, **request) as stream:
            for _ in stream:
                pass
            return stream.get_final_response()

    def create(**request):
        return client.responses.create(model=MODEL, **request)

    def loop(ask):
        messages = [{"role": "user", "content": "What is the weather?"}]
        first = ask(input=messages, tools=tools, store=False)
        equal([item.type for item in first.output], ["function_call", "function_call"])
        for item in first.output:
            messages.append(item.model_dump(exclude={"parsed_arguments"}, exclude_none=True))
        for item in first.output:
            city = json.loads(item.arguments)["city"]
            messages.append({"type": "function_call_output", "call_id": item.call_id, "output": WEATHER[city]})
        matches(ask(input=messages, tools=tools, store=False).output_text)

    def text():
        response = create(instructions="Be brief.", input="Where?")
        equal(response.output_text, "Down the canal, as told: Be brief.")
        equal(response.usage.input_tokens_details.cached_tokens, 4)

    def stream():
        deltas = [event.delta for event in create(input="Where?", stream=True) if event.type == "response.output_text.delta"]
        equal("".join(deltas), "Down the canal.")
        response = final(input="Where?")
        equal(response.output_text, "Down the canal.")
        equal(response.usage.output_tokens, 6)

    def same():
        for prompt in ("Where?", "think: where?", "refuse"):
            whole, streamed = (json.loads(ask(input=prompt).to_json()) for ask in (create, final))
            for response in (whole, streamed):
                strip(response)
            equal(streamed, whole)

    def previous():
        first = create(input="What is the weather?", tools=tools)
        outputs = [
            {"type": "function_call_output", "call_id": item.call_id, "output": WEATHER[json.loads(item.arguments)["city"]]}
            for item in first.output
        ]
        matches(final(input=outputs, tools=tools, previous_response_id=first.id).output_text)

    def structured():
        equal(client.responses.parse(model=MODEL, input="Rome?", text_format=Report).output_parsed, REPORT)
        equal(final(input="Rome?", text_format=Report).output_parsed, REPORT)

    def reasoning():
        response = final(input="think: where?", reasoning={"effort": "low"})
        equal(response.output[0].content[0].text, "The canal leads to the wheel.")
        equal(response.usage.output_tokens_details.reasoning_tokens, 3)

    def images():
        content = [{"type": "input_text", "text": "What?"}, {"type": "input_image", "image_url": IMAGE, "detail": "auto"}]
        equal(create(input=[{"role": "user", "content": content}]).output_text, f"An image of {len(IMAGE)} characters.")

    def limits():
        equal(final(input="refuse").output[0].content[0].refusal, "I cannot do that.")
        equal(create(input="limit").incomplete_details.reason, "max_output_tokens")

    def errors():
        error = raises(lambda: create(input="fail"), "too long")
        equal((error.status_code, error.code), (400, "context_length_exceeded"))

    return {
        "text": text,
        "stream": stream,
        "stream and whole": same,
        "tools": lambda: loop(create),
        "streamed tools": lambda: loop(final),
        "previous_response_id": previous,
        "structured output": structured,
        "reasoning": reasoning,
        "images": images,
        "refusals and limits": limits,
        "errors": errors,
        "broken stream": lambda: raises(lambda: final(input="break"), "."),
    }


def strip(value):
    """Removes what differs between two answers, and what the client adds."""
    if isinstance(value, list):
        for item in value:
            strip(item)
    elif isinstance(value, dict):
        for name in ("id", "created_at", "completed_at", "parsed", "parsed_arguments", "output_parsed"):
            value.pop(name, None)
        for item in value.values():
            strip(item)


def agents_cases():
    from agents import Agent, Runner, function_tool, set_default_openai_api, set_default_openai_client, set_tracing_disabled
    from openai import AsyncOpenAI

    set_default_openai_client(AsyncOpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0), use_for_tracing=False)
    set_default_openai_api("responses")
    set_tracing_disabled(True)
    # The client keeps its connections, which belong to one loop.
    loop = asyncio.new_event_loop()

    @function_tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return WEATHER[city]

    plain = Agent(name="Guide", model=MODEL, instructions="Be brief.")
    reporter = Agent(name="Reporter", model=MODEL, tools=[get_weather])
    refunds = Agent(name="Refunds", model=MODEL, instructions="Give money back.")
    front = Agent(name="Front", model=MODEL, handoffs=[refunds])

    def run(agent, prompt):
        return loop.run_until_complete(Runner.run(agent, prompt))

    def streamed(agent, prompt):
        async def read():
            result = Runner.run_streamed(agent, prompt)
            async for _ in result.stream_events():
                pass
            return result

        return loop.run_until_complete(read())

    def handoff():
        result = run(front, "I want a refund.")
        equal(result.last_agent.name, "Refunds")

    return {
        "text": lambda: equal(run(plain, "Where?").final_output, "Down the canal, as told: Be brief."),
        "stream": lambda: equal(streamed(plain, "Where?").final_output, "Down the canal, as told: Be brief."),
        "tools": lambda: matches(run(reporter, "What is the weather?").final_output),
        "streamed tools": lambda: matches(streamed(reporter, "think: what is the weather?").final_output),
        "handoff": handoff,
        "structured output": lambda: equal(run(Agent(name="Reporter", model=MODEL, output_type=Report), "Rome?").final_output, REPORT),
        "errors": lambda: raises(lambda: run(plain, "fail"), "too long"),
        "broken stream": lambda: raises(lambda: streamed(plain, "break"), "."),
    }


def langchain_cases():
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=MODEL, api_key=KEY, base_url=BASE_URL, use_responses_api=True, max_retries=0, stream_usage=True)

    @tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return WEATHER[city]

    def gathered(model, messages):
        message = None
        for chunk in model.stream(messages):
            message = chunk if message is None else message + chunk
        return message

    def loop(ask):
        model = chat.bind_tools([get_weather])
        messages = [HumanMessage("What is the weather?")]
        called = ask(model, messages)
        equal(len(called.tool_calls), 2)
        messages.append(called)
        for call in called.tool_calls:
            messages.append(ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]))
        matches(text_of(ask(model, messages)))

    def invoke(model, messages):
        return model.invoke(messages)

    def text_of(message):
        return message.text if isinstance(message.text, str) else message.text()

    def text():
        message = chat.invoke("Where?")
        equal(text_of(message), "Down the canal.")
        equal(message.usage_metadata["input_tokens"], 12)

    def stream():
        message = gathered(chat, "Where?")
        equal(text_of(message), "Down the canal.")
        equal(message.usage_metadata["output_tokens"], 6)

    def previous():
        stateful = chat.model_copy(update={"use_previous_response_id": True})
        messages = [HumanMessage("think: where?")]
        messages.append(stateful.invoke(messages))
        messages.append(HumanMessage("And then?"))
        equal(text_of(stateful.invoke(messages)), "Down the canal.")

    def images():
        content = [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": IMAGE}}]
        equal(text_of(chat.invoke([HumanMessage(content=content)])), f"An image of {len(IMAGE)} characters.")

    return {
        "text": text,
        "stream": stream,
        "tools": lambda: loop(invoke),
        "streamed tools": lambda: loop(gathered),
        "previous_response_id": previous,
        "structured output": lambda: equal(chat.with_structured_output(Report, method="json_schema").invoke("Rome?"), REPORT),
        "reasoning": lambda: equal(text_of(gathered(chat, "think: where?")), "Down the canal."),
        "images": images,
        "errors": lambda: raises(lambda: chat.invoke("fail"), "too long"),
        "broken stream": lambda: raises(lambda: gathered(chat, "break"), "."),
    }


CASES = {"openai": openai_cases, "openai-agents": agents_cases, "langchain-openai": langchain_cases}

name = sys.argv[1]
for title, run in CASES[name]().items():
    error = None
    try:
        run()
    except Exception:
        error = traceback.format_exc()
    line = {"client": f"{name} (Python)", "version": version(name), "title": title, "error": error}
    print(json.dumps(line), flush=True)
