#!/usr/bin/env python3
"""Runs Python clients and the requests of editors against a model host or a gateway in front of a real llama-server.

    clients.py URL MODEL [KEY]

Needs the packages of clients-requirements.txt. Prints one line for each client and exits 1 when one of them fails.
"""

import json
import sys
import urllib.request

import openai
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI, OpenAI as LangChainOpenAI

url, model, key = (*sys.argv[1:], "none")[:3]
failures = 0


def post(path: str, body: dict) -> dict:
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    request = urllib.request.Request(url + path, json.dumps({"model": model, **body}).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def check(name):
    def run(test):
        global failures
        try:
            print(f"ok      {name}: {test()}")
        except Exception as error:  # noqa: BLE001 -- every failure is reported
            failures += 1
            print(f"FAILED  {name}: {type(error).__name__}: {error}")

    return run


client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


@check("openai, chat")
def _():
    answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hi"}], max_tokens=8)
    assert answer.usage.completion_tokens == 8
    return answer.usage.prompt_tokens


@check("openai, chat streamed with usage")
def _():
    stream = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Hi"}], max_tokens=8, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[-1].usage.completion_tokens == 8
    return len(chunks)


@check("openai, responses streamed")
def _():
    with client.responses.stream(model=model, input="Hi", max_output_tokens=8) as stream:
        final = stream.get_final_response()
    assert final.usage.output_tokens == 8 and final.output_text
    return final.status


@check("openai, completions with log probabilities")
def _():
    answer = client.completions.create(model=model, prompt="the water", max_tokens=4, logprobs=2)
    return answer.choices[0].finish_reason


@check("openai, an error has a message")
def _():
    try:
        client.chat.completions.create(model=model, messages="no list")
    except openai.APIStatusError as error:
        assert error.status_code in (400, 422) and error.message
        return error.status_code
    raise AssertionError("nothing was refused")


@check("langchain, ChatOpenAI")
def _():
    chat = ChatOpenAI(base_url=f"{url}/v1", api_key=key, model=model, max_tokens=8)
    assert chat.invoke([HumanMessage("Hi")]).content
    return len(list(chat.stream("Hi")))


@check("langchain, OpenAI completions")
def _():
    return len(LangChainOpenAI(base_url=f"{url}/v1", api_key=key, model=model, max_tokens=8).invoke("the water"))


# What llama.vim sends while somebody types: first it fills the cache, then it asks.
FIM = {
    "id_slot": 0, "input_prefix": "the mill ", "input_suffix": " the river", "input_extra": [{"filename": "a.txt", "text": "down"}],
    "prompt": "is ", "n_predict": 8, "stop": [], "n_indent": 0, "top_k": 40, "top_p": 0.9, "stream": False,
    "samplers": ["top_k", "top_p", "infill"], "cache_prompt": True, "t_max_prompt_ms": 500, "t_max_predict_ms": 1000,
    "response_fields": ["content", "timings/prompt_n", "timings/predicted_n", "truncated", "tokens_cached"],
}


@check("llama.vim, warming the cache")
def _():
    return post("/infill", {**FIM, "prompt": "", "n_predict": 0, "t_max_predict_ms": 1, "response_fields": [""]})


@check("llama.vim, infill")
def _():
    answer = post("/infill", FIM)
    assert list(answer) == FIM["response_fields"], answer
    return answer["content"]


@check("llama.cpp's web page, encoding ahead")
def _():
    body = {"messages": [{"role": "user", "content": "Hi"}], "n_predict": 0, "stream": False, "timings_per_token": True}
    return post("/v1/chat/completions", body)["usage"]["prompt_tokens"]


@check("Continue, completion")
def _():
    return post("/completion", {"prompt": "the water", "n_predict": 4, "stop": ["."], "stream": False})["stop_type"]


@check("llama-cpp-python's server API, completion with a list of stops and a seed")
def _():
    body = {"prompt": "the water", "max_tokens": 4, "stop": ["\n", "###"], "seed": 7, "top_k": 20, "repeat_penalty": 1.1, "min_p": 0.1}
    assert post("/v1/completions", body)["choices"][0]["text"] == post("/v1/completions", body)["choices"][0]["text"]
    return "the same twice"


sys.exit(1 if failures else 0)
