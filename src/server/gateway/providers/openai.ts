/**
 * The fields of OpenAI's Responses API and chat completions (v1, until autumn 2026), with the additions of common servers
 * that are compatible with the latter (vLLM, llama.cpp, OpenRouter, DeepSeek).
 *
 * To extend: add a new field to its object, and a new kind of item, tool or event to its `types`. Never add fields that
 * decide in place of a person (`mcp_approval_response`, `acknowledged_safety_checks`) to a list of answers.
 */

import { z } from 'zod';
import { omitUndefined } from '../../../lib/values.ts';
import type { ErrorCode } from '../../../protocol/error-codes.ts';
import { ADDRESS, type Fields, fields, freeFields, MODEL_NAME, oneOfTypes } from '../field-check.ts';
import {
  Count,
  type Finality,
  listOf,
  modelRoutes,
  Place,
  type ProviderAdapter,
  type ProviderError,
  piecesAt,
  type ReadMessage,
  routeRule,
  Text,
  type TextPiece,
  type TokenCounts,
} from './provider.ts';

const breakpoint = fields('mode');
const cacheOptions = fields('mode ttl');
const location = fields('type city country region timezone');
const logprob: Fields = fields('token bytes logprob', { top_logprobs: fields('token bytes logprob') });
const failure = fields('type code message param');

// Responses: what both sides have.

const toolTypes = `function custom namespace tool_search local_shell shell apply_patch image_generation computer computer_use_preview
  programmatic_tool_calling web_search web_search_\\d{4}_\\d{2}_\\d{2} web_search_preview web_search_preview_\\d{4}_\\d{2}_\\d{2}
  file_search code_interpreter mcp`;
const toolChoiceTypes = oneOfTypes(toolTypes, 'allowed_tools');
const networkPolicy = fields('type allowed_domains', { domain_secrets: fields('domain name value') });
const skills = fields('type skill_id version description name path', { source: fields('type data media_type') });
const toolFilter = fields('read_only tool_names', {
  always: fields('read_only tool_names'),
  never: fields('read_only tool_names'),
});

const tool: Fields = fields(
  `type name description strict defer_loading allowed_callers vector_store_ids max_num_results display_height display_width
   environment search_content_types search_context_size external_web_access server_label authorization connector_id
   server_description server_url tunnel_id action background input_fidelity moderation output_compression output_format
   partial_images quality size execution`,
  {
    ...freeFields('parameters output_schema filters headers'),
    model: MODEL_NAME,
    tools: () => tool,
    format: fields('type definition syntax'),
    ranking_options: fields('ranker score_threshold', { hybrid_search: fields('embedding_weight text_weight') }),
    user_location: location,
    allowed_tools: toolFilter,
    require_approval: toolFilter,
    container: fields('type file_ids memory_limit', { network_policy: networkPolicy }),
    environment: fields(
      'type file_ids memory_limit container_id',
      { network_policy: networkPolicy, skills },
      { remoteTypes: /^container_/ },
    ),
    input_image_mask: fields('file_id', { image_url: ADDRESS }),
  },
  { types: oneOfTypes(toolTypes), remoteTypes: /^(?:web_search|file_search|code_interpreter|computer_use|mcp$)/ },
);
const toolChoice = fields('type name mode server_label', { tools: () => toolChoice }, { types: toolChoiceTypes });
const reasoning = fields('effort summary generate_summary context');
const textConfig = fields('verbosity', { format: fields('type name description strict', freeFields('schema')) });
const contextManagement = fields('type compact_threshold');

const itemFields = `id type role status phase call_id name namespace arguments input fingerprint encrypted_content code result
  server_label error approval_request_id reason execution max_output_length container_id queries created_by text refusal detail
  file_id filename file_data annotation_index data format transcript code_language revised_prompt background output_format quality
  size action`;
const action = fields(
  `type command env timeout_ms user working_directory commands max_output_length button x y keys scroll_x scroll_y text query
   queries pattern url`,
  { path: fields('x y'), sources: fields('type url') },
);
const annotation = fields('type file_id filename index container_id start_index end_index url title');
const nested = (own: () => Fields) => ({
  ...freeFields('arguments attributes'),
  content: own,
  summary: own,
  output: own,
  outputs: own,
  results: own,
  part: own,
  action,
  actions: action,
  annotations: annotation,
  logprobs: logprob,
  caller: fields('type caller_id'),
  environment: fields('type container_id'),
  operation: fields('type path diff'),
  outcome: fields('type exit_code'),
  pending_safety_checks: fields('id code message'),
  input_audio: fields('data format'),
  prompt_cache_breakpoint: breakpoint,
  error: fields('type code message', { content: own }),
});
const moreItemFields = 'stdout stderr logs score url image_url';
const itemTypes = `message reasoning function_call function_call_output custom_tool_call custom_tool_call_output file_search_call
  computer_call computer_call_output computer_screenshot web_search_call tool_search_call tool_search_output additional_tools
  image_generation_call code_interpreter_call local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call
  apply_patch_call_output mcp_list_tools mcp_approval_request mcp_call compaction compaction_summary compaction_trigger
  item_reference program program_output input_text input_image input_file input_audio output_text output_audio refusal reasoning_text
  summary_text text image logs error http_error mcp_protocol_error mcp_tool_execution_error`;
/** Tools within an item. The tools that an MCP server lists have further fields. */
const itemTools: Fields = {
  ...tool,
  fields: new Map([...tool.fields, ...fields('', freeFields('input_schema annotations')).fields]),
};

// Responses: what agents send.

const sentItem: Fields = fields(
  `${itemFields} ${moreItemFields} approve`,
  {
    ...nested(() => sentItem),
    tools: itemTools,
    acknowledged_safety_checks: fields('id code message'),
    image_url: ADDRESS,
    file_url: ADDRESS,
    metadata: 'free',
  },
  { types: oneOfTypes(itemTypes, 'mcp_approval_response') },
);

const responsesRequest = fields(
  `model stream store instructions max_output_tokens max_tool_calls parallel_tool_calls previous_response_id prompt_cache_key
   prompt_cache_retention safety_identifier service_tier temperature top_logprobs top_p truncation user include background`,
  {
    ...freeFields('metadata client_metadata'),
    input: sentItem,
    tools: tool,
    tool_choice: toolChoice,
    reasoning,
    text: textConfig,
    context_management: contextManagement,
    conversation: fields('id'),
    prompt: fields('id version', freeFields('variables'), { remote: 'always' }),
    prompt_cache_options: cacheOptions,
    stream_options: fields('include_obfuscation'),
  },
);

// Responses: what the provider answers.

const madeItem: Fields = fields(
  `${itemFields} ${moreItemFields}`,
  { ...nested(() => madeItem), tools: itemTools },
  { types: oneOfTypes(itemTypes) },
);
/** The answer repeats fields of the request. */
const responsesAnswer = fields(
  `id object created_at completed_at status model output_text instructions max_output_tokens max_tool_calls parallel_tool_calls
   previous_response_id prompt_cache_key prompt_cache_retention safety_identifier service_tier temperature top_logprobs top_p
   truncation user store background moderation frequency_penalty presence_penalty billing`,
  {
    ...freeFields('metadata'),
    output: madeItem,
    instructions: madeItem,
    error: failure,
    incomplete_details: fields('reason'),
    tools: tool,
    tool_choice: toolChoice,
    reasoning,
    text: textConfig,
    conversation: fields('id'),
    prompt: fields('id version', freeFields('variables')),
    prompt_cache_options: cacheOptions,
    billing: fields('payer'),
    context_management: contextManagement,
    usage: fields('input_tokens output_tokens total_tokens', {
      input_tokens_details: fields('cached_tokens cache_write_tokens'),
      output_tokens_details: fields('reasoning_tokens'),
    }),
  },
);

const responsesEvent = fields(
  `type sequence_number item_id output_index content_index summary_index annotation_index command_index partial_image_index
   partial_image_b64 text refusal arguments name input code command status obfuscation background output_format quality size
   message param response_id`,
  {
    response: responsesAnswer,
    item: madeItem,
    part: madeItem,
    annotation,
    logprobs: logprob,
    delta: fields('stdout stderr'),
    output: fields('stdout stderr', { outcome: fields('type exit_code') }),
    error: failure,
  },
  {
    types: oneOfTypes(
      'error response\\.(?:created queued in_progress completed incomplete failed',
      'output_item\\.(?:added|done) content_part\\.(?:added|done) output_text\\.(?:delta|done) output_text\\.annotation\\.added',
      'refusal\\.(?:delta|done) function_call_arguments\\.(?:delta|done) custom_tool_call_input\\.(?:delta|done)',
      'reasoning_summary_part\\.(?:added|done) reasoning_summary_text\\.(?:delta|done) reasoning_text\\.(?:delta|done)',
      'audio\\.(?:delta|done) audio\\.transcript\\.(?:delta|done) shell_call_command\\.(?:added|delta|done)',
      'shell_call_output_content\\.(?:delta|done) code_interpreter_call_code\\.(?:delta|done) mcp_call_arguments\\.(?:delta|done)',
      '(?:web_search|file_search|code_interpreter|image_generation|mcp)_call\\.(?:in_progress|searching|interpreting|generating)',
      '(?:web_search|file_search|code_interpreter|image_generation|mcp)_call\\.(?:completed|failed|partial_image)',
      'mcp_list_tools\\.(?:in_progress|completed|failed))',
    ),
  },
);

// Chat completions: what agents send.

const part: Fields = fields(
  'type text refusal',
  {
    image_url: { ...fields('detail', { url: ADDRESS }), remote: 'address' },
    file: fields('file_data file_id filename'),
    input_audio: fields('data format'),
    prompt_cache_breakpoint: breakpoint,
    cache_control: fields('type ttl'),
  },
  { types: oneOfTypes('text image_url input_audio file refusal') },
);
const call = fields('id type index', {
  ...freeFields('extra_content'),
  function: fields('name', freeFields('arguments')),
  custom: fields('name input'),
});
const reasoningDetails = fields('type id format index text summary signature data');
const chatFunction = fields('name description strict', freeFields('parameters'));

const chatRequest = fields(
  `model stream n max_tokens max_completion_tokens temperature top_p top_k min_p seed stop logprobs top_logprobs frequency_penalty
   presence_penalty repetition_penalty parallel_tool_calls reasoning_effort verbosity modalities service_tier store user
   safety_identifier prompt_cache_key prompt_cache_retention`,
  {
    ...freeFields('metadata logit_bias chat_template_kwargs'),
    messages: fields('role name tool_call_id refusal reasoning reasoning_content', {
      content: part,
      tool_calls: call,
      function_call: fields('name arguments'),
      audio: fields('id'),
      reasoning_details: reasoningDetails,
      annotations: fields('type', { url_citation: annotation }),
    }),
    tools: fields(
      'type',
      { function: chatFunction, custom: fields('name description', freeFields('format')) },
      { types: oneOfTypes('function custom') },
    ),
    tool_choice: fields('type mode', {
      function: fields('name'),
      custom: fields('name'),
      allowed_tools: fields('mode', freeFields('tools')),
    }),
    functions: chatFunction,
    function_call: fields('name'),
    response_format: fields('type', { json_schema: fields('name description strict', freeFields('schema')) }),
    stream_options: fields('include_usage include_obfuscation'),
    prediction: fields('type', { content: part }),
    audio: fields('format voice'),
    reasoning: fields('effort max_tokens exclude enabled'),
    thinking: fields('type budget_tokens'),
    prompt_cache_options: cacheOptions,
    web_search_options: fields(
      'search_context_size',
      { user_location: fields('type', { approximate: location }) },
      { remote: 'always' },
    ),
  },
);

// Chat completions: what the provider answers, whole or in chunks.

const chatUsage = fields(
  `prompt_tokens completion_tokens total_tokens prompt_cache_hit_tokens prompt_cache_miss_tokens cost is_byok queue_time
   prompt_time completion_time total_time`,
  {
    prompt_tokens_details: fields(
      'cached_tokens audio_tokens cache_write_tokens text_tokens image_tokens video_tokens',
    ),
    completion_tokens_details: fields(
      'reasoning_tokens audio_tokens accepted_prediction_tokens rejected_prediction_tokens text_tokens image_tokens',
    ),
    cost_details: fields(
      'upstream_inference_cost upstream_inference_prompt_cost upstream_inference_completions_cost upstream_inference_input_cost upstream_inference_output_cost',
    ),
  },
);
const said = fields('role content refusal reasoning reasoning_content', {
  tool_calls: call,
  function_call: fields('name arguments'),
  audio: fields('id data expires_at transcript'),
  annotations: fields('type', { url_citation: annotation }),
  reasoning_details: reasoningDetails,
});

const chatAnswer = fields(
  'id object created model system_fingerprint service_tier obfuscation provider moderation prompt_token_ids prompt_logprobs',
  {
    ...freeFields('metadata timings kv_transfer_params x_groq'),
    choices: fields('index finish_reason native_finish_reason stop_reason token_ids', {
      message: said,
      delta: said,
      logprobs: fields('', { content: logprob, refusal: logprob }),
    }),
    usage: chatUsage,
    error: { ...failure, fields: new Map([...failure.fields, ['metadata', 'free']]) },
  },
);

/** In a stream, an error can replace a chunk. */
const openaiModel = fields('id object created owned_by root parent max_model_len context_length name description');
const openaiModels: Fields = fields('object has_more first_id last_id', { data: openaiModel });
const openaiError = fields('type', { error: failure });

const UsageDetails = z.object({ cached_tokens: Count }).nullish().catch(undefined);

/** `input` excludes cached tokens. */
const OpenAiUsage = z
  .object({
    input_tokens: Count,
    output_tokens: Count,
    input_tokens_details: UsageDetails,
    prompt_tokens: Count,
    completion_tokens: Count,
    prompt_tokens_details: UsageDetails,
  })
  .nullish()
  .catch(undefined)
  .transform((usage): Partial<TokenCounts> | undefined => {
    if (!usage) return undefined;
    const input = usage.input_tokens ?? usage.prompt_tokens;
    const cacheRead = (usage.input_tokens_details ?? usage.prompt_tokens_details)?.cached_tokens ?? 0;
    return omitUndefined({
      input: input === undefined ? undefined : Math.max(0, input - cacheRead),
      output: usage.output_tokens ?? usage.completion_tokens,
      cacheRead,
    });
  });

const OpenAiResponse = z.object({ model: Text, usage: OpenAiUsage });

const SaidPart = z.object({ text: Text, refusal: Text });
/** With what an item begins, before its deltas. */
const SaidItem = z.object({
  arguments: Text,
  input: Text,
  code: Text,
  content: listOf(SaidPart),
  summary: listOf(SaidPart),
});
/** Of a text, or of the two outputs of a command. */
const SaidDelta = z
  .union([z.string().transform((text) => ({ text })), z.object({ stdout: Text, stderr: Text })])
  .optional()
  .catch(undefined);

const ResponsesMessage = OpenAiResponse.extend({
  type: Text,
  object: Text,
  output_index: Place,
  content_index: Place,
  summary_index: Place,
  delta: SaidDelta,
  command: Text,
  part: SaidPart.optional().catch(undefined),
  item: SaidItem.optional().catch(undefined),
  response: OpenAiResponse.optional().catch(undefined),
});

const finality: ReadonlyMap<string, Finality> = new Map([
  ['response.completed', 'final'],
  ['response.incomplete', 'final'],
  ['response.failed', 'final'],
  ['error', 'unknown'],
]);

export const readResponses: ReadMessage = (message) => {
  const parsed = ResponsesMessage.safeParse(message);
  if (!parsed.success || (parsed.data.type === undefined && parsed.data.object === undefined)) return undefined;
  const { type = '', object, response = parsed.data } = parsed.data;
  const { model, usage } = response;
  return {
    model,
    counts: usage,
    texts: saidInEvent(type, parsed.data),
    last: object === 'response' ? 'final' : finality.get(type),
  };
};

/** Deltas, and what they continue. An event that repeats the whole text at its end continues nothing. */
function saidInEvent(type: string, event: z.infer<typeof ResponsesMessage>): TextPiece[] {
  const { output_index, content_index, summary_index, delta, command, part, item } = event;
  const where = `${output_index} ${content_index ?? summary_index} ${type}`;
  if (!type.endsWith('.added')) return piecesAt(where, { ...delta });
  const { content, summary, ...said } = item ?? {};
  const parts = [...(content ?? []), ...(summary ?? []), ...(part ? [part] : [])];
  return [...piecesAt(where, { command, ...said }), ...parts.flatMap((each) => piecesAt(where, each))];
}

const CalledFunction = z.object({ arguments: Text }).optional().catch(undefined);
const ChatToolCall = z.object({
  index: Place,
  function: CalledFunction,
  custom: z.object({ input: Text }).optional().catch(undefined),
});
const ChatDelta = z.object({
  content: Text,
  refusal: Text,
  reasoning: Text,
  reasoning_content: Text,
  tool_calls: listOf(ChatToolCall),
  function_call: CalledFunction,
  audio: z.object({ transcript: Text }).optional().catch(undefined),
  reasoning_details: listOf(z.object({ index: Place, text: Text, summary: Text, data: Text })),
});

const ChatChunk = z.object({
  object: z.string(),
  model: Text,
  choices: z
    .array(z.object({ index: Place, delta: ChatDelta.optional().catch(undefined) }))
    .optional()
    .catch(undefined),
  usage: OpenAiUsage,
});

export const readChat: ReadMessage = (message) => {
  const parsed = ChatChunk.safeParse(message);
  if (!parsed.success) return undefined;
  const { object, model, choices = [], usage } = parsed.data;
  return {
    model,
    counts: usage,
    texts: choices.flatMap(({ index, delta }) => (delta ? saidInDelta(index, delta) : [])),
    last: object === 'chat.completion' ? 'final' : undefined,
  };
};

function saidInDelta(choice: z.infer<typeof Place>, delta: z.infer<typeof ChatDelta>): TextPiece[] {
  const { tool_calls, function_call, audio, reasoning_details, ...texts } = delta;
  return [
    ...piecesAt(choice, texts),
    ...piecesAt(`${choice} function`, { ...function_call }),
    ...piecesAt(`${choice} audio`, { ...audio }),
    ...tool_calls.flatMap(({ index, function: called, custom }) =>
      piecesAt(`${choice} tool ${index}`, { ...called, ...custom }),
    ),
    ...reasoning_details.flatMap(({ index, ...said }) => piecesAt(`${choice} details ${index}`, said)),
  ];
}

function errorBody({ status, code, message }: ProviderError): Record<string, unknown> {
  return { error: { message, type: errorType(status, code), param: null, code: errorCodeOf(code) } };
}

function errorType(status: number, code: ErrorCode): string {
  if (status === 429) return code === 'BUDGET_EXCEEDED' ? 'insufficient_quota' : 'requests';
  return status < 500 ? 'invalid_request_error' : 'server_error';
}

function errorCodeOf(code: ErrorCode): string {
  if (code === 'UNAUTHENTICATED') return 'invalid_api_key';
  return code === 'BUDGET_EXCEEDED' ? 'insufficient_quota' : code.toLowerCase();
}

export const openai: ProviderAdapter = {
  address: 'https://api.openai.com',
  routes: [
    routeRule('POST', '/v1/responses', 'responses', {
      request: responsesRequest,
      answer: responsesAnswer,
      event: responsesEvent,
    }),
    routeRule('POST', '/v1/chat/completions', 'chat', { request: chatRequest, answer: chatAnswer, event: chatAnswer }),
    ...modelRoutes('/v1/models', openaiModels, openaiModel),
  ],
  anyCase: false,
  versionHeaders: { 'openai-beta': /^(?:responses|assistants)=[\w.-]{1,40}$/ },
  errorFields: openaiError,
  keyHeader: (key) => ({ authorization: `Bearer ${key}` }),
  errorBody,
  errorEvent: (error) => `event: error\ndata: ${JSON.stringify({ type: 'error', ...errorBody(error) })}\n\n`,
};
