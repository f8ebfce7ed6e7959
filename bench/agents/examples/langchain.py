# LangChain with a tool, over chat completions, responses or messages: `invoke` and `stream`.

import os

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

url, key, name, dialect = (os.environ[each] for each in ("BASE_URL", "KEY", "MODEL", "DIALECT"))


@tool
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


if dialect == "messages":
    model = ChatAnthropic(model=name, api_key=key, base_url=url)
else:
    model = ChatOpenAI(model=name, api_key=key, base_url=f"{url}/v1", use_responses_api=dialect == "responses")
bound = model.bind_tools([add])


def streamed(messages):
    whole = None
    for chunk in bound.stream(messages):
        whole = chunk if whole is None else whole + chunk
    return whole


for ask in (bound.invoke, streamed):
    messages = [HumanMessage("What is 2 + 3?")]
    first = ask(messages)
    call = first.tool_calls[0]
    result = add.invoke(call["args"])
    last = ask([*messages, first, ToolMessage(content=result, tool_call_id=call["id"])])
    print(last.text if isinstance(last.text, str) else last.text())
