# OpenAI Agents with a tool, over responses or chat completions: `run`, whole and streamed.

import asyncio
import os

from agents import Agent, OpenAIProvider, RunConfig, Runner, function_tool, set_tracing_disabled

url, key, name, dialect = (os.environ[each] for each in ("BASE_URL", "KEY", "MODEL", "DIALECT"))
set_tracing_disabled(True)
provider = OpenAIProvider(base_url=f"{url}/v1", api_key=key, use_responses=dialect == "responses")


@function_tool
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


async def main():
    agent = Agent(name="Adder", model=name, tools=[add])
    config = RunConfig(model_provider=provider)
    whole = await Runner.run(agent, "What is 2 + 3?", run_config=config)
    print(whole.final_output)
    streamed = Runner.run_streamed(agent, "What is 2 + 3?", run_config=config)
    async for _ in streamed.stream_events():
        pass
    print(streamed.final_output)


asyncio.run(main())
