/**
 * The fields of Gemini's `generateContent`, `streamGenerateContent` and `countTokens` (v1, v1beta and v1alpha, until autumn 2026).
 * The API accepts each name in two spellings. This list uses `camelCase`.
 *
 * To extend: add a new field to its object. Never add fields that decide in place of a person.
 */

import { z } from 'zod';
import { omitUndefined } from '../../../lib/values.ts';
import { ADDRESS, type Fields, fields, freeFields, MODEL_NAME } from '../field-check.ts';
import {
  Count,
  listOf,
  MODEL,
  modelRoutes,
  Place,
  type ProviderAdapter,
  type ProviderError,
  piecesAt,
  type ReadMessage,
  routeRule,
  Text,
  type TextPiece,
} from './provider.ts';

const fileData = fields('displayName mimeType', { fileUri: ADDRESS });
const blob = fields('data displayName mimeType');
const part = fields('text thought thoughtSignature', {
  ...freeFields('partMetadata'),
  inlineData: blob,
  fileData,
  functionCall: fields('id name willContinue', {
    ...freeFields('args'),
    partialArgs: fields('boolValue jsonPath nullValue numberValue stringValue willContinue'),
  }),
  functionResponse: fields('id name scheduling willContinue', {
    ...freeFields('response'),
    parts: fields('', { fileData, inlineData: blob }),
  }),
  executableCode: fields('code language id'),
  codeExecutionResult: fields('outcome output id'),
  toolCall: fields('id toolType', freeFields('args')),
  toolResponse: fields('id toolType', freeFields('response')),
  videoMetadata: fields('endOffset fps startOffset'),
  mediaResolution: fields('level numTokens'),
});
const content = fields('role', { parts: part });

// What agents send.

/** A tool of the provider: its name alone enables it. */
const atProvider: Fields = { fields: new Map(), remote: 'always' };
const remote = (plain: string, nested: Parameters<typeof fields>[1] = {}) =>
  fields(plain, nested, { remote: 'always' });
const tool = fields('', {
  functionDeclarations: fields(
    'behavior description name',
    freeFields('parameters parametersJsonSchema response responseJsonSchema'),
  ),
  computerUse: fields('environment excludedPredefinedFunctions'),
  codeExecution: atProvider,
  urlContext: atProvider,
  googleSearch: remote('excludeDomains blockingConfidence', freeFields('timeRangeFilter searchTypes')),
  googleSearchRetrieval: remote('', { dynamicRetrievalConfig: fields('mode dynamicThreshold') }),
  enterpriseWebSearch: remote('excludeDomains blockingConfidence'),
  googleMaps: remote('enableWidget', freeFields('authConfig')),
  fileSearch: remote('fileSearchStoreNames topK metadataFilter', freeFields('retrievalConfig')),
  retrieval: remote('disableAttribution', freeFields('externalApi vertexAiSearch vertexRagStore')),
  mcpServers: remote('name', freeFields('streamableHttpTransport')),
});
const generationConfig = fields(
  `candidateCount maxOutputTokens stopSequences temperature topP topK seed presencePenalty frequencyPenalty responseLogprobs
   logprobs responseMimeType responseModalities mediaResolution audioTimestamp enableAffectiveDialog enableEnhancedCivicAnswers`,
  {
    ...freeFields('responseSchema responseJsonSchema speechConfig routingConfig modelSelectionConfig responseFormat'),
    thinkingConfig: fields('includeThoughts thinkingBudget thinkingLevel'),
    imageConfig: fields('aspectRatio imageSize personGeneration outputMimeType outputCompressionQuality'),
  },
);
const asked = {
  ...freeFields('labels'),
  contents: content,
  systemInstruction: content,
  tools: tool,
  toolConfig: fields('includeServerSideToolInvocations', {
    functionCallingConfig: fields('allowedFunctionNames mode streamFunctionCallArguments'),
    retrievalConfig: fields('languageCode', { latLng: fields('latitude longitude') }),
  }),
  generationConfig,
  safetySettings: fields('category method threshold'),
  /** Cached content can include tools and files that the gateway cannot see. */
  cachedContent: { ...atProvider },
};

const geminiRequest: Fields = fields('serviceTier store', { ...asked, model: MODEL_NAME });
const geminiCountRequest: Fields = fields('', { ...asked, model: MODEL_NAME, generateContentRequest: geminiRequest });

// What the provider answers.

const safetyRating = fields(
  'blocked category overwrittenThreshold probability probabilityScore severity severityScore',
);
const tokens = fields('modality tokenCount');
const citation = fields('endIndex license startIndex title uri', { publicationDate: fields('year month day') });
const logprob = fields('token tokenId logProbability');
const failure = fields('code message status', {
  details: fields('@type reason domain retryDelay', freeFields('metadata violations links fieldViolations')),
});

const geminiAnswer: Fields = fields('createTime modelVersion responseId', {
  candidates: fields('finishMessage finishReason tokenCount index avgLogprobs', {
    content,
    ...freeFields('groundingMetadata groundingAttributions'),
    citationMetadata: fields('', { citations: citation, citationSources: citation }),
    safetyRatings: safetyRating,
    urlContextMetadata: fields('', { urlMetadata: fields('retrievedUrl urlRetrievalStatus') }),
    logprobsResult: fields('logProbabilitySum', {
      chosenCandidates: logprob,
      topCandidates: fields('', { candidates: logprob }),
    }),
  }),
  promptFeedback: fields('blockReason blockReasonMessage', { safetyRatings: safetyRating }),
  modelStatus: fields('message modelStage retirementTime'),
  usageMetadata: fields(
    `promptTokenCount cachedContentTokenCount candidatesTokenCount thoughtsTokenCount toolUsePromptTokenCount totalTokenCount
     trafficType serviceTier`,
    {
      promptTokensDetails: tokens,
      cacheTokensDetails: tokens,
      candidatesTokensDetails: tokens,
      toolUsePromptTokensDetails: tokens,
    },
  ),
  error: failure,
});

const geminiCount = fields('totalTokens cachedContentTokenCount totalBillableCharacters', {
  promptTokensDetails: tokens,
  cacheTokensDetails: tokens,
});
const geminiModel = fields(
  `name baseModelId version displayName description inputTokenLimit outputTokenLimit supportedGenerationMethods temperature
   maxTemperature topP topK thinking`,
);
const geminiModels: Fields = fields('nextPageToken', { models: geminiModel });
const geminiError = fields('', { error: failure });

const SaidPart = z.object({
  text: Text,
  thought: z.boolean().optional().catch(undefined),
  functionCall: z
    .object({ partialArgs: listOf(z.object({ jsonPath: Text, stringValue: Text })) })
    .optional()
    .catch(undefined),
  executableCode: z.object({ code: Text }).optional().catch(undefined),
  codeExecutionResult: z.object({ output: Text }).optional().catch(undefined),
});

const GeminiMessage = z.object({
  modelVersion: Text,
  candidates: z
    .array(
      z.object({
        index: Place,
        content: z
          .object({ parts: listOf(SaidPart) })
          .optional()
          .catch(undefined),
      }),
    )
    .optional()
    .catch(undefined),
  usageMetadata: z
    .object({
      promptTokenCount: Count,
      cachedContentTokenCount: Count,
      candidatesTokenCount: Count,
      thoughtsTokenCount: Count,
      toolUsePromptTokenCount: Count,
    })
    .optional()
    .catch(undefined),
});

export const readGemini: ReadMessage = (message) => {
  const parsed = GeminiMessage.safeParse(message);
  const { candidates, usageMetadata: usage, modelVersion } = parsed.data ?? {};
  if (!candidates && !usage) return undefined;
  return {
    model: modelVersion,
    counts: usage && countsOf(usage),
    texts: (candidates ?? []).flatMap(({ index, content }) =>
      (content?.parts ?? []).flatMap((part) => saidInPart(index ?? 0, part)),
    ),
    last: 'final-if-last',
  };
};

function saidInPart(candidate: string | number, part: z.infer<typeof SaidPart>): TextPiece[] {
  const { text, thought = false, functionCall, executableCode, codeExecutionResult } = part;
  return [
    ...piecesAt(`${candidate} ${thought}`, { text }),
    ...piecesAt(candidate, { ...executableCode, ...codeExecutionResult }),
    ...(functionCall?.partialArgs ?? []).flatMap(({ jsonPath, stringValue }) =>
      piecesAt(`${candidate} ${jsonPath}`, { stringValue }),
    ),
  ];
}

function countsOf(usage: NonNullable<z.infer<typeof GeminiMessage>['usageMetadata']>) {
  const { promptTokenCount: prompt, cachedContentTokenCount: cached = 0, toolUsePromptTokenCount: tools = 0 } = usage;
  const { candidatesTokenCount: written, thoughtsTokenCount: thought } = usage;
  return omitUndefined({
    input: prompt === undefined ? undefined : Math.max(0, prompt - cached) + tools,
    // Gemini omits counts of zero.
    output:
      prompt === undefined && written === undefined && thought === undefined
        ? undefined
        : (written ?? 0) + (thought ?? 0),
    cacheRead: cached,
  });
}

const errorStates: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  413: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
};

function errorBody({ status, message }: ProviderError): Record<string, unknown> {
  return { error: { code: status, message, status: errorStates[status] ?? 'INTERNAL' } };
}

const MODELS = '/v1(?:beta|alpha)?/models';

export const gemini: ProviderAdapter = {
  address: 'https://generativelanguage.googleapis.com',
  routes: [
    routeRule('POST', `${MODELS}/(?<model>${MODEL}):(?<action>generateContent|streamGenerateContent)`, 'gemini', {
      request: geminiRequest,
      answer: geminiAnswer,
      event: geminiAnswer,
    }),
    routeRule('POST', `${MODELS}/(?<model>${MODEL}):countTokens`, 'free', {
      request: geminiCountRequest,
      answer: geminiCount,
    }),
    ...modelRoutes(MODELS, geminiModels, geminiModel),
  ],
  anyCase: true,
  // The path has the version.
  versionHeaders: {},
  errorFields: geminiError,
  keyHeader: (key) => ({ 'x-goog-api-key': key }),
  errorBody,
  errorEvent: (error) => `data: ${JSON.stringify(errorBody(error))}\n\n`,
};
