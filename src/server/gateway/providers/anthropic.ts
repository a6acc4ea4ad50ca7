/**
 * The fields of Anthropic's Messages API (`anthropic-version: 2023-06-01`, with its betas until autumn 2026).
 *
 * To extend: add a new field to its object, and a new kind of block or event to its `types`. The first half lists what
 * agents send, the second half what the provider answers. Never add fields that decide in place of a person
 * (`safeguards`, `safeguard_results`, and their betas): an agent takes such a verdict for the permission that it must
 * ask for.
 */

import { z } from 'zod';
import { omitUndefined } from '../../../lib/values.ts';
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
} from './provider.ts';

/** The betas that a request may use, without their dates. */
const anthropicBetas = oneOfTypes(
  'advanced-tool-use advisor-tool agent-memory cache-diagnosis cache-keepalive claude-code claude-code-side-query',
  'code-execution computer-use context-1m context-hint context-management effort extended-cache-ttl fallback-credit',
  'fast-mode files-api fine-grained-tool-streaming inline-tools interleaved-thinking mcp-client mcp-servers message-threads',
  'mid-conversation-system mid-conversation-system-clear-at mid-conversation-tool-changes model-context-window-exceeded',
  'output-128k output-300k pdfs per-turn-control program-use-case-ids prompt-caching prompt-caching-evict',
  'prompt-caching-scope redact-thinking request-tags search-results server-side-fallback skills structured-outputs',
  'task-budgets thinking-binding-controls thinking-display-updates thinking-resumption thinking-token-count timing',
  'token-counting token-efficient-tools tool-examples tool-provenance tool-search-tool user-profiles web-fetch web-search',
);

const cacheControl = fields('type ttl scope');
const caller = fields('type tool_id');
const citation = fields(
  `type cited_text document_index document_title end_char_index start_char_index file_id end_block_index
   start_block_index end_page_number start_page_number search_result_index source title encrypted_index url`,
);
/** A list of citations, or a flag. */
const citations: Fields = { fields: new Map([...citation.fields, ...fields('enabled').fields]) };
const outputFormat = fields('type', freeFields('schema'));
const outputConfig = fields('effort', { format: outputFormat, task_budget: fields('type total remaining') });
const thinking = fields('type budget_tokens display');

/** Block fields that both sides use: those of the provider's own tools. */
const resultFields = `type tool_use_id error_code error_message stdout stderr encrypted_stdout return_code file_id stop_reason text
  encrypted_content is_file_update lines new_lines new_start old_lines old_start file_type num_lines start_line total_lines
  retrieved_at url page_age title tool_name`;
const ownResults = `web_search_tool_result web_fetch_tool_result advisor_tool_result code_execution_tool_result
  bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result mcp_tool_result`;
const insideResults = `web_search_result web_search_tool_result_error web_fetch_result web_fetch_tool_result_error advisor_result
  advisor_redacted_result advisor_tool_result_error code_execution_result encrypted_code_execution_result code_execution_output
  code_execution_tool_result_error bash_code_execution_result bash_code_execution_output
  bash_code_execution_tool_result_error text_editor_code_execution_view_result text_editor_code_execution_create_result
  text_editor_code_execution_str_replace_result text_editor_code_execution_tool_result_error
  tool_search_tool_search_result tool_search_tool_result_error`;

// What agents send.

const source: Fields = fields('type data media_type file_id', { url: ADDRESS, content: () => sentBlock });
const sentBlock: Fields = fields(
  `${resultFields} id name data is_error thinking signature context server_name toolset_name`,
  {
    ...freeFields('input'),
    cache_control: cacheControl,
    citations,
    caller,
    source,
    content: () => sentBlock,
    tool_references: () => sentBlock,
    transformations: fields('oversized_image'),
    tool: fields('type name server_name'),
    from: fields('model'),
    to: fields('model'),
    trigger: fields('type category'),
    tabs: fields('tab_id title url active'),
    state_changes: fields('type tab_id download_id url path size_bytes error'),
  },
  {
    types: oneOfTypes(
      'text image document search_result thinking redacted_thinking tool_use tool_result server_tool_use mcp_tool_use',
      `${ownResults} ${insideResults} container_upload compaction tool_addition tool_removal tool_reference fallback browser_state`,
    ),
  },
);

const sentTool = fields(
  `type name description strict defer_loading eager_input_streaming allowed_callers max_characters max_uses max_tokens
   display_height_px display_width_px display_number enable_zoom allowed_domains blocked_domains max_content_tokens use_cache
   response_inclusion mcp_server_name`,
  {
    ...freeFields('input_schema input_examples configs'),
    model: MODEL_NAME,
    cache_control: cacheControl,
    caching: cacheControl,
    citations: fields('enabled'),
    user_location: fields('type city country region timezone'),
    default_config: fields('defer_loading enabled'),
  },
  {
    types: oneOfTypes(
      'custom mcp_toolset tool_search_tool_regex tool_search_tool_bm25',
      `(?:bash|text_editor|computer|memory|code_execution|web_search|web_fetch|advisor|tool_search_tool_regex)_\\d{8}
       tool_search_tool_bm25_\\d{8} (?:computer|browser)_toolset_\\d{8}`,
    ),
    remoteTypes: /^(?:web_search|web_fetch|code_execution|mcp_toolset)/,
  },
);

const edit = fields(
  'type clear_tool_inputs exclude_tools instructions pause_after_compaction',
  { keep: fields('type value'), trigger: fields('type value'), clear_at_least: fields('type value') },
  { types: /^(?:clear_thinking|clear_tool_uses|compact)_\d{8}$/ },
);

const counted = {
  messages: fields('role', { content: sentBlock, output_config: outputConfig }),
  system: sentBlock,
  tools: sentTool,
  tool_choice: fields('type name disable_parallel_tool_use'),
  thinking,
  output_config: outputConfig,
  output_format: outputFormat,
  cache_control: cacheControl,
  context_management: fields('', { edits: edit }),
  mcp_servers: fields(
    'type name url authorization_token',
    { tool_configuration: fields('allowed_tools enabled') },
    { remote: 'always' },
  ),
};

const countTokensRequest = fields('model speed user_profile_id', counted);
const messagesRequest = fields(
  'model max_tokens stream temperature top_k top_p stop_sequences service_tier speed inference_geo user_profile_id',
  {
    ...counted,
    metadata: fields('user_id'),
    container: fields('id', { skills: fields('type skill_id version') }),
    diagnostics: fields('previous_message_id'),
    fallback_credit_token: fields('token mode'),
    fallbacks: fields('max_tokens speed', { model: MODEL_NAME, output_config: outputConfig, thinking }),
  },
);

// What the provider answers.

const cacheCreation = fields('ephemeral_1h_input_tokens ephemeral_5m_input_tokens');
const counts = `input_tokens output_tokens cache_creation_input_tokens cache_read_input_tokens`;
const usage = fields(`${counts} service_tier inference_geo speed`, {
  cache_creation: cacheCreation,
  server_tool_use: fields('web_search_requests web_fetch_requests'),
  output_tokens_details: fields('thinking_tokens'),
  iterations: fields(`${counts} type model`, { cache_creation: cacheCreation }),
  fallback_credit: fields('', { status: fields('type reason remove_to_redeem') }),
});

const madeBlock: Fields = fields(
  `${resultFields} id name data thinking signature is_error server_name toolset_name media_type`,
  {
    ...freeFields('input'),
    citations,
    caller,
    content: () => madeBlock,
    source: () => madeBlock,
    tool_references: () => madeBlock,
    from: fields('model'),
    to: fields('model'),
    trigger: fields('type category'),
  },
  {
    types: oneOfTypes(
      'text thinking redacted_thinking tool_use server_tool_use mcp_tool_use container_upload compaction fallback',
      `${ownResults} ${insideResults} document tool_reference base64`,
    ),
  },
);

const stopDetails = fields(
  'type category explanation fallback_credit_token fallback_has_prefill_claim recommended_model',
);
const container = fields('id expires_at', { skills: fields('type skill_id version') });
const contextManagement = fields('original_input_tokens', {
  applied_edits: fields('type cleared_input_tokens cleared_thinking_turns cleared_tool_uses'),
});
const failure = fields('type message', { details: fields('error_visibility') });

const answered = {
  content: madeBlock,
  usage,
  container,
  context_management: contextManagement,
  stop_details: stopDetails,
  diagnostics: fields('', { cache_miss_reason: fields('type cache_missed_input_tokens') }),
};

const messagesAnswer = fields('id type role model stop_reason stop_sequence', answered, { types: /^message$/ });

/** A stream event of any kind. */
const messagesEvent = fields(
  'type index request_id',
  {
    message: messagesAnswer,
    content_block: madeBlock,
    delta: fields(
      `type text partial_json thinking signature content encrypted_content estimated_tokens stop_reason stop_sequence`,
      { citation, container, stop_details: stopDetails },
      {
        types: oneOfTypes(
          'text_delta input_json_delta citations_delta thinking_delta signature_delta compaction_delta',
        ),
      },
    ),
    usage,
    context_management: contextManagement,
    error: failure,
  },
  {
    types: oneOfTypes(
      'message_start message_delta message_stop content_block_start content_block_delta content_block_stop ping error',
    ),
  },
);

const countTokensAnswer = fields('input_tokens', { context_management: contextManagement });

const model = fields(
  'type id display_name created_at max_input_tokens max_tokens allowed_fallback_models',
  freeFields('capabilities'),
);
const anthropicModels: Fields = fields('has_more first_id last_id', { data: model });

const anthropicError = fields('type request_id', { error: failure });

const AnthropicUsage = z
  .object({
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
  })
  .nullish()
  .catch(undefined);

/** Of a block, or of a delta that continues it. */
const Said = z.object({
  text: Text,
  thinking: Text,
  partial_json: Text,
  content: Text,
  signature: Text,
  encrypted_content: Text,
});

const AnthropicMessage = z.object({
  type: z.string(),
  index: Place,
  model: Text,
  usage: AnthropicUsage,
  message: z
    .object({ model: Text, usage: AnthropicUsage, content: listOf(Said) })
    .optional()
    .catch(undefined),
  content_block: Said.optional().catch(undefined),
  delta: Said.optional().catch(undefined),
});

const finality: ReadonlyMap<string, Finality> = new Map([
  ['message_stop', 'final'],
  ['message', 'final'],
  ['error', 'unknown'],
]);

export const readMessages: ReadMessage = (message) => {
  const parsed = AnthropicMessage.safeParse(message);
  if (!parsed.success) return undefined;
  const { type, index, model, usage, message: started, content_block: block, delta } = parsed.data;
  const reported = usage ?? started?.usage;
  return {
    model: model ?? started?.model,
    counts: reported
      ? omitUndefined({
          input: reported.input_tokens,
          output: reported.output_tokens,
          cacheRead: reported.cache_read_input_tokens,
          cacheWrite: reported.cache_creation_input_tokens,
        })
      : undefined,
    texts: [
      ...(started?.content ?? []).flatMap((each, at) => piecesAt(at, each)),
      ...piecesAt(index, { ...block }),
      ...piecesAt(index, { ...delta }),
    ],
    last: finality.get(type),
  };
};

const errorTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
};

function errorBody({ status, message }: ProviderError): Record<string, unknown> {
  return { type: 'error', error: { type: errorTypes[status] ?? 'api_error', message } };
}

export const anthropic: ProviderAdapter = {
  address: 'https://api.anthropic.com',
  routes: [
    routeRule('POST', '/v1/messages', 'messages', {
      request: messagesRequest,
      answer: messagesAnswer,
      event: messagesEvent,
    }),
    routeRule('POST', '/v1/messages/count_tokens', 'free', { request: countTokensRequest, answer: countTokensAnswer }),
    ...modelRoutes('/v1/models', anthropicModels, model),
  ],
  anyCase: false,
  versionHeaders: { 'anthropic-version': /^2023-06-01$/, 'anthropic-beta': anthropicBetas },
  errorFields: anthropicError,
  keyHeader: (key) => ({ 'x-api-key': key }),
  errorBody,
  errorEvent: (error) => `event: error\ndata: ${JSON.stringify(errorBody(error))}\n\n`,
};
