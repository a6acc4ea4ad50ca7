/** Reads an agent's model request within limits: its body, its model, and how much output it may produce. */

import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { GatheredBytes } from '../../lib/gathered-bytes.ts';
import { type JsonMember, JsonScanner } from '../../lib/json-scanner.ts';
import { CellaError } from '../../protocol/errors.ts';
import { firstProblem } from '../../protocol/parse.ts';
import { FieldChecker, fields, refusedRequest } from './field-check.ts';
import { checkVersions, type ProviderRoute, providerAdapters } from './provider-api.ts';
import type { ApiFormat } from './providers/provider.ts';

export interface ModelRequest {
  /** As forwarded; undefined if there is none. */
  readonly body: Buffer | undefined;
  readonly model: string | undefined;
  /** Further models that the provider may call: fallbacks, and those of its tools. */
  readonly otherModels: readonly string[];
  readonly outputLimit: OutputLimit;
  /** Whether the answer is a stream. */
  readonly streamed: boolean;
  /** The field, if any, that refers to context stored at the provider. */
  readonly storedContext?: string | undefined;
}

/** Models that search the web on their own. */
const SEARCHING = /-search-(?:preview|api)\b|\bdeep-research\b/;

const ModelName = z.string().regex(/^[\w./:@-]{1,200}$/);
const Body = z.looseObject({
  model: ModelName.optional(),
  stream: z.boolean().nullish(),
  background: z.boolean().nullish(),
  stream_options: z.looseObject({}).nullish(),
});
type Body = z.infer<typeof Body>;

/** What is checked in addition to the format. */
interface ModelRequestRules extends BodyLimits {
  /** Fields and types of this provider that the operator added. */
  readonly added: ReadonlySet<string>;
  /** Whether the provider may reach other hosts for the agent. */
  readonly mayReach: boolean;
}

export async function readModelRequest(
  request: IncomingMessage,
  route: ProviderRoute,
  rules: ModelRequestRules,
): Promise<ModelRequest> {
  const { added, mayReach } = rules;
  checkVersions(request.headers, route.provider, added);
  if (!route.takesBody) {
    const outputLimit = outputLimitOf(route.format, {});
    return { body: undefined, model: route.model, otherModels: [], outputLimit, streamed: false };
  }
  const { 'content-encoding': encoding = 'identity', 'content-type': type = '' } = request.headers;
  if (encoding !== 'identity') throw invalidBody('The body must not be compressed.');
  if (!/^application\/json\s*(;|$)/i.test(type)) throw invalidBody('The body must be application/json.');
  const { anyCase } = providerAdapters[route.provider];
  const checker = new FieldChecker({ shape: route.fields.request ?? fields(''), added, mayReach, anyCase });
  const members = await readMembers(request, rules, checker);
  const body = parseBody(members);
  const model = route.model ?? body.model;
  if (model === undefined) throw invalidBody('The body has no model.');
  // Gemini also accepts the name of a resource.
  const otherModels = [...checker.models].map((name) => name.replace(/^models\//, ''));
  if (!mayReach && [model, ...otherModels].some((name) => SEARCHING.test(name)))
    throw refusedRequest({ kind: 'remote', at: 'model' });
  if (body.background === true)
    throw invalidBody('Background requests are not allowed, because their usage cannot be counted.');
  const referred = storedContextIn(route.format, members.values);
  const streamed = route.streams ?? body.stream === true;
  return {
    body: countable(route, body, members),
    model,
    otherModels,
    outputLimit: outputLimitOf(route.format, body),
    streamed,
    storedContext: referred,
  };
}

/** The members that the gateway uses. */
function parseBody(members: JsonMembers): Body {
  const parsed = Body.safeParse(members.values([...Object.keys(Body.shape), ...OUTPUT_FIELDS]));
  if (parsed.success) return parsed.data;
  throw invalidBody(`Invalid body: ${firstProblem(parsed.error)}.`);
}

/** A stream of chat completions reports its usage only if the request asks for it. */
function countable({ format }: ProviderRoute, body: Body, members: JsonMembers): Buffer {
  if (format !== 'chat' || body.stream !== true || body.stream_options?.include_usage === true) return members.bytes;
  return members.with('stream_options', { ...body.stream_options, include_usage: true });
}

/** For calls without a limit: the maximum output of any model of these providers. */
const UNNAMED_OUTPUT = 128_000;
const MOST_OUTPUT = 10_000_000;
const MOST_ANSWERS = 128;

interface OutputLimit {
  /** Output tokens of all answers together. */
  readonly tokens: number;
  /** How many alternative answers the call requests. */
  readonly answers: number;
}

const tokens = z.int().min(1).catch(UNNAMED_OUTPUT).optional();
const answers = z.int().min(1).max(MOST_ANSWERS).catch(MOST_ANSWERS).optional();
/** Gemini accepts each name in two spellings. */
const config = z
  .looseObject({
    maxOutputTokens: tokens,
    max_output_tokens: tokens,
    candidateCount: answers,
    candidate_count: answers,
  })
  .catch({})
  .optional();
const OutputFields = z.looseObject({
  max_tokens: tokens,
  max_completion_tokens: tokens,
  max_output_tokens: tokens,
  n: answers,
  generationConfig: config,
  generation_config: config,
});
type OutputFields = z.infer<typeof OutputFields>;

const OUTPUT_FIELDS: readonly string[] = Object.keys(OutputFields.shape);

/** Ignores the names that other providers use, as the provider does. */
export function outputLimitOf(format: ApiFormat, body: unknown): OutputLimit {
  const { data = {} } = OutputFields.safeParse(body);
  const { most, count } = requestedOutput(format, data);
  return { tokens: Math.min(most * count, MOST_OUTPUT), answers: count };
}

function requestedOutput(format: ApiFormat, said: OutputFields): { readonly most: number; readonly count: number } {
  switch (format) {
    case 'messages':
      return { most: largest(said.max_tokens), count: 1 };
    case 'responses':
      return { most: largest(said.max_output_tokens), count: 1 };
    case 'chat':
      return { most: largest(said.max_completion_tokens, said.max_tokens), count: said.n ?? 1 };
    case 'gemini': {
      // If both are given, it is unknown which one counts.
      const given = [said.generationConfig, said.generation_config].filter((each) => each !== undefined);
      const counts = given.flatMap((each) => [each.candidateCount ?? 1, each.candidate_count ?? 1]);
      const most = given.map((each) => largest(each.maxOutputTokens, each.max_output_tokens));
      return { most: largest(...most), count: Math.max(1, ...counts) };
    }
    case 'free':
      return { most: 0, count: 1 };
  }
}

function largest(...named: readonly (number | undefined)[]): number {
  const all = named.filter((each) => each !== undefined);
  return all.length === 0 ? UNNAMED_OUTPUT : Math.max(...all);
}

const names: Readonly<Record<ApiFormat, readonly string[]>> = {
  messages: [],
  responses: ['previous_response_id', 'conversation', 'prompt'],
  chat: [],
  gemini: ['cachedContent', 'cached_content'],
  free: [],
};

/** The field that refers to stored context. */
export function storedContextIn(
  format: ApiFormat,
  values: (names: readonly string[]) => Record<string, unknown>,
): string | undefined {
  const said = Object.entries(values(names[format]));
  return said.find(([, value]) => value !== null)?.[0];
}

/** More names than any provider has, and deeper than any conversation. */
const LIMITS = { mostDeep: 500, mostKeys: 200 };
const MOST_KEY_BYTES = 200;
/** Limit on a value that is parsed. */
const MOST_VALUE_BYTES = 64 * 1024;

interface JsonMembers {
  /** The body as received. */
  readonly bytes: Buffer;
  /** The parsed values of the names that exist. */
  values(names: readonly string[]): Record<string, unknown>;
  /** A copy of the body with this value replaced. */
  with(name: string, value: unknown): Buffer;
}

/** `take` throws if the bodies of all calls together hold too much. */
interface BodyLimits {
  readonly mostBytes: number;
  readonly take: (bytes: number) => void;
}

/** `checker` checks its fields. */
export async function readMembers(
  request: IncomingMessage,
  room: BodyLimits,
  checker: FieldChecker,
): Promise<JsonMembers> {
  const scan = new JsonScanner(LIMITS, checker);
  const bytes = await readBytes(request, room, (chunk) => {
    const isJson = scan.push(chunk);
    if (checker.finding) throw refusedRequest(checker.finding);
    if (!isJson) throw noJson();
  });
  // Two parsers may read invalid UTF-8 differently.
  if (!scan.end() || !isUtf8(bytes)) throw noJson();
  if (!scan.isObject) throw invalidBody('The body is not an object.');
  const found = named(bytes, scan.members);
  const read = ({ value: [from, to] }: JsonMember, name: string): unknown => {
    if (to - from > MOST_VALUE_BYTES) throw invalidBody(`Invalid body: ${name} is too long.`);
    return JSON.parse(bytes.toString('utf8', from, to));
  };
  return {
    bytes,
    values: (names) => {
      const there = names.flatMap((name) => (found.has(name) ? [[name, found.get(name)] as const] : []));
      return Object.fromEntries(there.map(([name, member]) => [name, member && read(member, name)]));
    },
    with: (name, value) => {
      const text = JSON.stringify(value);
      const member = found.get(name);
      const [from, to] = member?.value ?? [bytes.indexOf(0x7b) + 1, bytes.indexOf(0x7b) + 1];
      const put = member ? text : `${JSON.stringify(name)}:${text}${found.size === 0 ? '' : ','}`;
      return Buffer.concat([bytes.subarray(0, from), Buffer.from(put), bytes.subarray(to)]);
    },
  };
}

/** Throws for duplicate names: some parsers use the first, so the provider might not read what was checked. */
function named(bytes: Buffer, members: readonly JsonMember[]): Map<string, JsonMember> {
  const found = new Map<string, JsonMember>();
  for (const member of members) {
    const [from, to] = member.key;
    if (to - from > MOST_KEY_BYTES) throw invalidBody('The body has a key that is too long.');
    const name: string = JSON.parse(bytes.toString('utf8', from, to));
    if (found.has(name)) throw invalidBody('The body has a duplicate key.');
    found.set(name, member);
  }
  return found;
}

async function readBytes(
  request: IncomingMessage,
  { mostBytes, take }: BodyLimits,
  look: (chunk: Buffer) => void,
): Promise<Buffer> {
  const tooLarge = () =>
    new CellaError('TOO_LARGE', `The body is larger than ${mostBytes} bytes.`, {
      advice: 'Send less at once: a shorter conversation, or smaller images.',
    });
  if (Number(request.headers['content-length'] ?? 0) > mostBytes) throw tooLarge();
  // The client disconnected during the token check. A destroyed request emits no further events.
  if (request.destroyed) throw brokeOff();
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  let gathered = new GatheredBytes();
  let refused = false;
  // Read and drop the rest, so that the client receives the response.
  const refuse = (error: unknown) => {
    refused = true;
    gathered = new GatheredBytes();
    reject(error);
  };
  request.on('data', (chunk: Buffer) => {
    if (refused) return;
    try {
      if (gathered.size + chunk.length > mostBytes) throw tooLarge();
      take(chunk.length);
      look(chunk);
      gathered.push(chunk);
    } catch (error) {
      refuse(error);
    }
  });
  request.on('end', () => resolve(gathered.bytes()));
  request.on('close', () => reject(brokeOff()));
  request.on('error', () => reject(brokeOff()));
  return await promise;
}

export const invalidBody = (message: string): CellaError =>
  new CellaError('INVALID_REQUEST', message, { advice: 'Send it as the provider documents it.' });

/** A parser's own message would contain a piece of the body. */
const noJson = (): CellaError => invalidBody('The body is not JSON, is nested too deeply, or has too many keys.');

const brokeOff = (): CellaError => new CellaError('ABORTED', 'The request is incomplete.');
