// A configuration file that uses most sections.

export const EXAMPLE_ENV: Readonly<Record<string, string>> = { HEADRACE_API_KEY: 'hr_example_client_key' };

export const EXAMPLE_YAML: string = `
# two machines run the same model; a third one embeds
listen: 0.0.0.0:8080
admin: 127.0.0.1:9090
threads: auto
servicePrefix: svc
errorBodies: auto
models:
  atlas-27b:
    servers: [http://127.0.0.1:9001, "http://127.0.0.1:9002/"]
    context_length: 131072
    hugging_face_id: acme/Atlas-27B
    tee: false
    capabilities: [chat, tools, vision]
    pricing: { prompt: "0.25", completion: "1.50" }
  Embed-1.5:
    servers:
      - https://embed.example/base/
discovery: null
health: { interval: 5s, timeout: 2s, path: /health }
routing: { affinity: true, stickiness: 4, retryBudget: 0.2 }
timeouts: { connect: 3s, headers: 600s, firstByte: null, idle: 60s }
keys:
  required: true
  static: [{ key: "\${HEADRACE_API_KEY}", account: demo }]
store: sqlite:./headrace.db
search:
  timeout: 10s
  engines:
    engine_a: { kind: worker, url: http://127.0.0.1:9101 }
    engine_b: { kind: brave, apiKey: "\${HEADRACE_API_KEY}" }
  pricing: { engine_a: "0.005" }
fetch: { timeout: 15s, maxBytes: 10MB, allow: [] }
payments: null
`;
