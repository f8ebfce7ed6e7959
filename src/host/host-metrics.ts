// `GET /metrics` of a host in the Prometheus text format: Headrace's names, and those of llama.cpp's server and vLLM that
// dashboards know. Pure: figures in, text out.
import type { EngineFigures } from './model-engine.ts';
type Row = readonly [name: string, type: 'counter' | 'gauge', help: string, value: number, labels?: string];

/**
 * The text; `labels` are written to vLLM's names, which always name the model. `engineText` is what the engine says
 * itself, and stands in place of the names of other servers.
 */
export function metricsText(
  figures: EngineFigures,
  models: readonly string[],
  live: number,
  engineText: string | null = null,
): string {
  const model = JSON.stringify(models.join(','));
  const others = engineText === null ? [...llamaCpp(figures), ...vllm(figures)] : [];
  const text = [...ours(figures, live), ...others]
    .map(([name, type, help, value, more = '']) => {
      const labels = name.startsWith('vllm:') ? `{model_name=${model}${more}}` : '';
      return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${name}${labels} ${value}\n`;
    })
    .join('');
  return text + (engineText ?? '');
}

function ours(figures: EngineFigures, live: number): Row[] {
  const prefix = 'headrace_host';
  return [
    [`${prefix}_requests_live`, 'gauge', 'Requests in progress.', live],
    [`${prefix}_steps_total`, 'counter', 'Steps of the engine.', figures.steps],
    [`${prefix}_late_steps_total`, 'counter', 'Steps that ended late by more than a step.', figures.lateSteps],
    [`${prefix}_most_behind_seconds`, 'gauge', 'The most that a step ended late.', figures.mostBehindMs / 1000],
    [`${prefix}_prompt_tokens_cached_total`, 'counter', 'Prompt tokens found in the cache.', figures.cachedTokens],
    ...(figures.cacheTokens > 0 ? [cacheTokens(figures)] : []),
  ];
}

function cacheTokens({ cacheTokens: tokens }: EngineFigures): Row {
  return ['headrace_host_cache_tokens', 'gauge', 'Tokens that the KV memory of a model holds.', tokens];
}

function llamaCpp(figures: EngineFigures): Row[] {
  const evaluated = figures.promptTokens - figures.cachedTokens;
  const promptSeconds = figures.promptMs / 1000;
  const seconds = figures.generationMs / 1000;
  const perSecond = (count: number, time: number): number => (time === 0 ? 0 : count / time);
  const { generatedTokens } = figures;
  const rate = perSecond(generatedTokens, seconds);
  return [
    ['llamacpp:prompt_tokens_total', 'counter', 'Prompt tokens evaluated.', evaluated],
    ['llamacpp:prompt_seconds_total', 'counter', 'Time of prompts.', promptSeconds],
    ['llamacpp:tokens_predicted_total', 'counter', 'Tokens generated.', generatedTokens],
    ['llamacpp:tokens_predicted_seconds_total', 'counter', 'Time of generation.', seconds],
    ['llamacpp:n_decode_total', 'counter', 'Steps of the engine.', figures.steps],
    ['llamacpp:prompt_tokens_seconds', 'gauge', 'Prompt tokens a second.', perSecond(evaluated, promptSeconds)],
    ['llamacpp:predicted_tokens_seconds', 'gauge', 'Tokens a second and sequence.', rate],
    ['llamacpp:kv_cache_usage_ratio', 'gauge', 'Part of the memory in use.', figures.memoryUse],
    ['llamacpp:requests_processing', 'gauge', 'Sequences that run.', figures.running],
    ['llamacpp:requests_deferred', 'gauge', 'Sequences that wait.', figures.waiting],
  ];
}

function vllm(figures: EngineFigures): Row[] {
  return [
    ['vllm:num_requests_running', 'gauge', 'Sequences that run.', figures.running],
    ['vllm:num_requests_waiting', 'gauge', 'Sequences that wait.', figures.waiting],
    ['vllm:kv_cache_usage_perc', 'gauge', 'Part of the memory in use.', figures.memoryUse],
    ['vllm:num_preemptions_total', 'counter', 'Sequences pushed out by memory pressure.', figures.preemptions],
    ['vllm:prompt_tokens_total', 'counter', 'Prompt tokens, cached ones included.', figures.promptTokens],
    ['vllm:generation_tokens_total', 'counter', 'Tokens generated.', figures.generatedTokens],
    ['vllm:prefix_cache_queries_total', 'counter', 'Prompt tokens looked up.', figures.promptTokens],
    ['vllm:prefix_cache_hits_total', 'counter', 'Prompt tokens found in the cache.', figures.cachedTokens],
    ...(figures.blockTokens > 0 ? [cacheConfig(figures)] : []),
  ];
}

/** As vLLM says it: the size is in the labels. */
function cacheConfig({ blockTokens, cacheTokens: tokens }: EngineFigures): Row {
  const labels = `,block_size="${blockTokens}",num_gpu_blocks="${tokens / blockTokens}",enable_prefix_caching="True"`;
  return ['vllm:cache_config_info', 'gauge', 'KV blocks of a model.', 1, labels];
}
