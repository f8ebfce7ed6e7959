"""One call of one Python client: `python probe.py CLIENT CASE`. Prints the text of the answer, and exits with 1 and the message that a
user of the client would see. BASE_URL (without /v1), KEY and MODEL say whom to ask."""

import os
import sys

ROOT, KEY, MODEL = os.environ["BASE_URL"], os.environ["KEY"], os.environ["MODEL"]
BASE, PROMPT = f"{ROOT}/v1", os.environ["PROMPT"]
NAME, KIND = sys.argv[1:3]
MESSAGES = [{"role": "user", "content": PROMPT}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
DESCRIPTION = "The weather of a city"
TOOL = {"type": "function", "function": {"name": "get_weather", "description": DESCRIPTION, "parameters": PARAMETERS}}
RESULT = "21 degrees"


def get_weather(city: str) -> str:
    """The weather of a city"""
    return RESULT


def completion(create):
    """By a function that is called as `chat.completions.create` of the SDK."""
    if KIND == "stream":
        chunks = create(model=MODEL, messages=MESSAGES, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    if KIND != "tools":
        return create(model=MODEL, messages=MESSAGES).choices[0].message.content
    message = create(model=MODEL, messages=MESSAGES, tools=[TOOL]).choices[0].message
    results = [{"role": "tool", "tool_call_id": call.id, "content": get_weather("")} for call in message.tool_calls]
    again = [*MESSAGES, message.model_dump(exclude_none=True), *results]
    return create(model=MODEL, messages=again, tools=[TOOL]).choices[0].message.content


def openai():
    from openai import OpenAI

    return completion(OpenAI(base_url=BASE, api_key=KEY).chat.completions.create)


def azure():
    from openai import AzureOpenAI

    client = AzureOpenAI(azure_endpoint=ROOT, api_key=KEY, api_version="2024-10-21")
    return completion(client.chat.completions.create)


def anthropic():
    from anthropic import Anthropic

    client = Anthropic(base_url=ROOT, api_key=KEY, auth_token=None)
    ask = {"model": MODEL, "max_tokens": 500, "messages": MESSAGES}
    if KIND == "stream":
        with client.messages.stream(**ask) as stream:
            return stream.get_final_text()
    if KIND != "tools":
        return client.messages.create(**ask).content[0].text
    from anthropic import beta_tool

    runner = client.beta.messages.tool_runner(**ask, tools=[beta_tool(get_weather)])
    return "".join(block.text for block in runner.until_done().content if block.type == "text")


def langchain():
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model=MODEL, base_url=BASE, api_key=KEY)
    if KIND == "stream":
        return "".join(chunk.text for chunk in chat.stream(PROMPT))
    if KIND != "tools":
        return chat.invoke(PROMPT).text
    from langchain_core.messages import HumanMessage, ToolMessage

    bound = chat.bind_tools([get_weather])
    answer = bound.invoke(PROMPT)
    results = [ToolMessage(get_weather(""), tool_call_id=call["id"]) for call in answer.tool_calls]
    return bound.invoke([HumanMessage(PROMPT), answer, *results]).text


def litellm():
    import litellm as client

    client.suppress_debug_info = True
    return completion(
        lambda model, **request: client.completion(model=f"openai/{model}", api_base=BASE, api_key=KEY, **request)
    )


def llama_index():
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    llm = OpenAILike(model=MODEL, api_base=BASE, api_key=KEY, is_chat_model=True, is_function_calling_model=True)
    if KIND == "stream":
        return "".join(part.delta or "" for part in llm.stream_complete(PROMPT))
    if KIND != "tools":
        return llm.complete(PROMPT).text
    return llm.predict_and_call([FunctionTool.from_defaults(fn=get_weather)], user_msg=PROMPT).response


def instructor():
    import instructor as library
    from openai import OpenAI
    from pydantic import BaseModel

    class get_weather(BaseModel):
        city: str

    client = library.from_openai(OpenAI(base_url=BASE, api_key=KEY))
    ask = {"model": MODEL, "messages": MESSAGES}
    if KIND == "stream":
        parts = client.chat.completions.create_partial(response_model=get_weather, **ask)
        return [part.city for part in parts][-1]
    return client.chat.completions.create(response_model=get_weather, max_retries=1, **ask).city


def pydantic_ai():
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=BASE, api_key=KEY))
    agent = Agent(model, tools=[get_weather] if KIND == "tools" else [])
    if KIND != "stream":
        return agent.run_sync(PROMPT).output

    import asyncio

    async def streamed():
        async with agent.run_stream(PROMPT) as result:
            return "".join([text async for text in result.stream_text(delta=True)])

    return asyncio.run(streamed())


def agents():
    import asyncio

    from agents import Agent, Runner, function_tool, set_default_openai_api, set_default_openai_client
    from agents import set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    set_default_openai_api("chat_completions")
    set_default_openai_client(AsyncOpenAI(base_url=BASE, api_key=KEY))
    agent = Agent(name="probe", model=MODEL, tools=[function_tool(get_weather)] if KIND == "tools" else [])

    async def run():
        if KIND != "stream":
            return (await Runner.run(agent, PROMPT)).final_output
        result = Runner.run_streamed(agent, PROMPT)
        async for _ in result.stream_events():
            pass
        return result.final_output

    return asyncio.run(run())


CLIENTS = {
    "openai-py": openai,
    "azure-py": azure,
    "anthropic-py": anthropic,
    "langchain-py": langchain,
    "litellm": litellm,
    "llama-index": llama_index,
    "instructor": instructor,
    "pydantic-ai": pydantic_ai,
    "agents-py": agents,
}

try:
    print(CLIENTS[NAME]())
except Exception as error:
    print(f"{type(error).__name__}: {error}")
    sys.exit(1)
