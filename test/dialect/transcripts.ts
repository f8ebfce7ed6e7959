// Streams as engines write them, event by event: what comes before the first output, the first output, and the rest.
import type { DialectName } from '../../src/dialect/dialect.ts';

export interface Transcript {
  readonly title: string;
  readonly dialect: DialectName;
  /** Events before the first useful one. */
  readonly opening: readonly string[];
  /** The first useful event. */
  readonly begins: string;
  readonly rest: readonly string[];
  /** Index in `rest` of the event after which the client has all output. */
  readonly finishedAt: number;
  /** Whether the last event says that nothing follows. */
  readonly complete: boolean;
}

const data = (text: string): string => `data: ${text}\n\n`;
const named = (name: string, text: string): string => `event: ${name}\ndata: ${text}\n\n`;
const typed = (type: string, members: string): string => named(type, `{"type":"${type}",${members}}`);

const OPENAI =
  '"id":"chatcmpl-B9M","object":"chat.completion.chunk","created":1741570283,"model":"gpt-4o","service_tier":"default","system_fingerprint":"fp_44"';
const VLLM = '"id":"chatcmpl-6f0","object":"chat.completion.chunk","created":1760000000,"model":"qwen3-8b"';
const LLAMA =
  '"created":1760000000,"id":"chatcmpl-x","model":"gemma","system_fingerprint":"b6000","object":"chat.completion.chunk"';

export const TRANSCRIPTS: readonly Transcript[] = [
  {
    title: 'OpenAI, chat completions',
    dialect: 'chat-completions',
    opening: [
      data(
        `{${OPENAI},"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"a9X"}`,
      ),
    ],
    begins: data(
      `{${OPENAI},"choices":[{"index":0,"delta":{"content":"Hello"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"Q"}`,
    ),
    rest: [
      data(
        `{${OPENAI},"choices":[{"index":0,"delta":{"content":"!"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"zz1"}`,
      ),
      data(
        `{${OPENAI},"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null,"obfuscation":"k"}`,
      ),
      data(
        `{${OPENAI},"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":0}}}`,
      ),
      data('[DONE]'),
    ],
    finishedAt: 1,
    complete: true,
  },
  {
    title: 'OpenAI, tool calls',
    dialect: 'chat-completions',
    opening: [],
    begins: data(
      `{${OPENAI},"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_D","type":"function","function":{"name":"get_weather","arguments":""}}],"refusal":null},"logprobs":null,"finish_reason":null}]}`,
    ),
    rest: [
      data(
        `{${OPENAI},"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"finish_reason\\":\\"stop\\"}"}}]},"logprobs":null,"finish_reason":null}]}`,
      ),
      data(`{${OPENAI},"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}]}`),
      data('[DONE]'),
    ],
    finishedAt: 1,
    complete: true,
  },
  {
    title: 'vLLM, chat completions with reasoning and running counts',
    dialect: 'chat-completions',
    opening: [
      data(
        `{${VLLM},"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"usage":{"prompt_tokens":12,"total_tokens":12,"completion_tokens":0}}`,
      ),
    ],
    begins: data(
      `{${VLLM},"choices":[{"index":0,"delta":{"reasoning":"Okay","reasoning_content":"Okay"},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":12,"total_tokens":13,"completion_tokens":1}}`,
    ),
    rest: [
      data(
        `{${VLLM},"choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`,
      ),
      data(
        `{${VLLM},"choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null}]}`,
      ),
      data(`{${VLLM},"choices":[],"usage":{"prompt_tokens":12,"total_tokens":14,"completion_tokens":2}}`),
      data('[DONE]'),
    ],
    finishedAt: 1,
    complete: true,
  },
  {
    title: 'SGLang, chat completions',
    dialect: 'chat-completions',
    opening: [
      data(
        '{"id":"7b1","object":"chat.completion.chunk","created":1760000000,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}',
      ),
    ],
    begins: data(
      '{"id":"7b1","object":"chat.completion.chunk","created":1760000000,"model":"m","choices":[{"index":0,"delta":{"role":null,"content":"Hi","reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}',
    ),
    rest: [
      data(
        '{"id":"7b1","object":"chat.completion.chunk","created":1760000000,"model":"m","choices":[{"index":0,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":"stop","matched_stop":151645}],"usage":null}',
      ),
      data('[DONE]'),
    ],
    finishedAt: 0,
    complete: true,
  },
  {
    title: 'llama.cpp, chat completions',
    dialect: 'chat-completions',
    opening: [
      data(`{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],${LLAMA}}`),
      ': ping\n\n',
    ],
    begins: data(`{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hi"}}],${LLAMA}}`),
    rest: [
      data(
        `{"choices":[{"finish_reason":"length","index":0,"delta":{}}],${LLAMA},"timings":{"cache_n":0,"prompt_n":7,"predicted_n":1}}`,
      ),
      data(
        `{"choices":[],${LLAMA},"usage":{"completion_tokens":1,"prompt_tokens":7,"total_tokens":8},"timings":{"prompt_n":7}}`,
      ),
      data('[DONE]'),
    ],
    finishedAt: 0,
    complete: true,
  },
  {
    title: 'an engine without [DONE] and without null finish reasons',
    dialect: 'chat-completions',
    opening: [],
    begins: data('{"id": "g", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}}]}'),
    rest: [
      data('{"id": "g", "choices": [{"index": 0, "delta": {"content": " \\"error\\""}}]}'),
      data('{"id": "g", "choices": [{"index": 0, "delta": {"content": "."}, "finish_reason": "stop"}]}'),
    ],
    finishedAt: 1,
    complete: false,
  },
  {
    title: 'vLLM, completions',
    dialect: 'completions',
    opening: [],
    begins: data(
      '{"id":"cmpl-2","object":"text_completion","created":1760000000,"model":"m","choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null}',
    ),
    rest: [
      data(
        '{"id":"cmpl-2","object":"text_completion","created":1760000000,"model":"m","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":null}',
      ),
      data('[DONE]'),
    ],
    finishedAt: 0,
    complete: true,
  },
  {
    title: 'OpenAI, responses',
    dialect: 'responses',
    opening: [
      typed(
        'response.created',
        '"sequence_number":0,"response":{"id":"resp_1","status":"in_progress","error":null,"output":[],"usage":null}',
      ),
      typed(
        'response.in_progress',
        '"sequence_number":1,"response":{"id":"resp_1","status":"in_progress","error":null,"output":[]}',
      ),
      typed(
        'response.output_item.added',
        '"sequence_number":2,"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}',
      ),
      typed(
        'response.content_part.added',
        '"sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}',
      ),
    ],
    begins: typed(
      'response.output_text.delta',
      '"sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hi","logprobs":[],"obfuscation":"x"',
    ),
    rest: [
      typed(
        'response.output_text.delta',
        '"sequence_number":5,"item_id":"msg_1","output_index":0,"content_index":0,"delta":" response.completed","logprobs":[],"obfuscation":"x"',
      ),
      typed(
        'response.output_text.done',
        '"sequence_number":6,"item_id":"msg_1","output_index":0,"content_index":0,"text":"Hi"',
      ),
      typed('response.content_part.done', '"sequence_number":7,"part":{"type":"output_text","text":"Hi"}'),
      typed(
        'response.output_item.done',
        '"sequence_number":8,"item":{"id":"msg_1","type":"message","status":"completed"}',
      ),
      typed(
        'response.completed',
        '"sequence_number":9,"response":{"id":"resp_1","status":"completed","error":null,"output":[{"type":"message"}],"usage":{"input_tokens":9,"output_tokens":2}}',
      ),
    ],
    finishedAt: 4,
    complete: true,
  },
  {
    title: 'OpenAI, responses with reasoning and a function call',
    dialect: 'responses',
    opening: [
      typed('response.created', '"sequence_number":0,"response":{"id":"resp_1","status":"in_progress"}'),
      typed(
        'response.output_item.added',
        '"sequence_number":1,"output_index":0,"item":{"id":"rs_1","type":"reasoning","encrypted_content":"gAAA","summary":[]}',
      ),
      typed(
        'response.reasoning_summary_part.added',
        '"sequence_number":2,"item_id":"rs_1","summary_index":0,"part":{"type":"summary_text","text":""}',
      ),
    ],
    begins: typed(
      'response.reasoning_summary_text.delta',
      '"sequence_number":3,"item_id":"rs_1","summary_index":0,"delta":"**Thinking"',
    ),
    rest: [
      typed(
        'response.output_item.added',
        '"sequence_number":4,"item":{"type":"function_call","name":"f","arguments":"","status":"in_progress"}',
      ),
      typed('response.function_call_arguments.delta', '"sequence_number":5,"delta":"{}"'),
      typed(
        'response.incomplete',
        '"sequence_number":6,"response":{"id":"resp_1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}',
      ),
    ],
    finishedAt: 2,
    complete: true,
  },
  {
    title: 'llama.cpp, responses without numbers',
    dialect: 'responses',
    opening: [
      typed('response.created', '"response":{"id":"resp_l","object":"response","status":"in_progress"}'),
      typed('response.in_progress', '"response":{"id":"resp_l","object":"response","status":"in_progress"}'),
      typed(
        'response.output_item.added',
        '"item":{"content":[],"id":"msg_l","role":"assistant","status":"in_progress","type":"message"}',
      ),
      typed('response.content_part.added', '"item_id":"msg_l","part":{"type":"output_text","text":""}'),
    ],
    begins: typed('response.output_text.delta', '"item_id":"msg_l","delta":"Hi"'),
    rest: [
      typed(
        'response.completed',
        '"response":{"id":"resp_l","status":"completed","output":[],"usage":{"input_tokens":7,"output_tokens":1}}',
      ),
    ],
    finishedAt: 0,
    complete: true,
  },
  {
    title: 'Anthropic, messages',
    dialect: 'messages',
    opening: [
      typed(
        'message_start',
        '"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}',
      ),
      typed('content_block_start', '"index":0,"content_block":{"type":"text","text":""}'),
      named('ping', '{"type": "ping"}'),
    ],
    begins: typed('content_block_delta', '"index":0,"delta":{"type":"text_delta","text":"Hello"}'),
    rest: [
      typed('content_block_delta', '"index":0,"delta":{"type":"text_delta","text":"message_stop"}'),
      typed('content_block_stop', '"index":0'),
      typed('message_delta', '"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}'),
      typed('message_stop', '"amazon-bedrock-invocationMetrics":{}'),
    ],
    finishedAt: 3,
    complete: true,
  },
  {
    title: 'llama.cpp, messages with thinking and a tool',
    dialect: 'messages',
    opening: [
      typed(
        'message_start',
        '"message":{"id":"chatcmpl-l","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":7,"output_tokens":0}}',
      ),
      typed('content_block_start', '"index":0,"content_block":{"type":"thinking","thinking":""}'),
    ],
    begins: typed('content_block_delta', '"index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}'),
    rest: [
      typed('content_block_delta', '"index":0,"delta":{"type":"signature_delta","signature":""}'),
      typed('content_block_start', '"index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}'),
      typed('content_block_delta', '"index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}'),
      typed('message_delta', '"delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}'),
      typed('message_stop', '"index":0'),
    ],
    finishedAt: 4,
    complete: true,
  },
  {
    title: 'llama.cpp of 2023, completion',
    dialect: 'llama',
    opening: [],
    begins: data('{"content":"Hi","multimodal":false,"slot_id":0,"stop":false}'),
    rest: [
      data('{"content":" \\"stop\\":true","multimodal":false,"slot_id":0,"stop":false}'),
      data(
        '{"content":"","generation_settings":{"n_ctx":512,"stop":["</s>"],"stream":true},"model":"m.gguf","prompt":"Say hi","slot_id":0,"stop":true,"stopped_eos":true,"stopped_limit":false,"timings":{"predicted_n":2,"prompt_n":3},"tokens_cached":5,"tokens_evaluated":3,"tokens_predicted":2,"truncated":false}',
      ),
    ],
    finishedAt: 1,
    complete: true,
  },
  {
    title: 'llama.cpp, completion',
    dialect: 'llama',
    opening: [],
    begins: data(
      '{"index":0,"content":"Hi","tokens":[13347],"stop":false,"id_slot":3,"tokens_predicted":1,"tokens_evaluated":4}',
    ),
    rest: [
      data(
        '{"index":0,"content":"","tokens":[],"id_slot":3,"stop":true,"model":"m","tokens_predicted":1,"tokens_evaluated":4,"generation_settings":{"stop":[]},"prompt":"Say hi","stop_type":"eos","stopping_word":"","tokens_cached":4,"timings":{"cache_n":0,"prompt_n":4,"predicted_n":1}}',
      ),
    ],
    finishedAt: 0,
    complete: true,
  },
];
