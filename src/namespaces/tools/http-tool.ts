/** Calls a tool that is an HTTP endpoint, and reads the response in bounded memory. */

import { createHash } from 'node:crypto';
import { GatheredBytes } from '../../lib/gathered-bytes.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type JsonText, jsonText } from '../../protocol/json-pieces.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import { argumentError, type BoundArguments, parametersOf, throwIfAborted } from './parameters.ts';
import { asText, fillJson, fillText, fillUrl, placeholders } from './placeholders.ts';
import { type Authentication, redact } from './tool-credentials.ts';
import type { HttpTool } from './tool-definition.ts';
import { decodeWhole, jsonProblem, type LargeResultTurn, parseToolJson, tail } from './tool-output.ts';

const MOST_REDIRECTS = 5;
/** Of the values in the URL, the query and the headers, in characters. Most servers accept less. */
const MOST_HEAD = 64 * 1024;
/** Header values: Latin-1 without control characters, so that no value can begin another header. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

export interface HttpRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: JsonText | undefined;
}

/** The request without the credential. */
export async function prepareRequest(callee: string, tool: HttpTool, { values }: BoundArguments): Promise<HttpRequest> {
  const refuse = (problem: string) => argumentError(callee, parametersOf(tool), problem);
  for (const [name, value] of values) {
    const problem = jsonProblem(value, { big: true });
    if (problem !== undefined) throw refuse(`cannot send ${name}: ${problem}`);
  }
  let head = 0;
  const count = (text: string) => {
    head += text.length;
    if (head <= MOST_HEAD) return;
    const most = `more than ${MOST_HEAD} characters for the URL, the query and the headers`;
    throw refuse(`got ${most}: send less, or change the definition so that it sends them in \`body\``);
  };
  for (const name of placeholders(tool.url)) count(asText(values.get(name) ?? ''));
  const filled = fillUrl(tool.url, values);
  if ('problem' in filled) throw refuse(`got a wrong value: ${filled.problem}`);
  for (const [name, template] of Object.entries(tool.query)) {
    const [only] = placeholders(String(template));
    const list = template === `{${only}}` && only !== undefined ? values.get(only) : undefined;
    const texts = Array.isArray(list) ? list.map(String) : [fillText(String(template), values)];
    for (const text of texts) {
      if (text === undefined) continue;
      count(name);
      count(text);
      filled.url.searchParams.append(name, text);
    }
  }
  const headers: Record<string, string> = tool.body === undefined ? {} : { 'content-type': 'application/json' };
  for (const [name, template] of Object.entries(tool.headers)) {
    const text = fillText(template, values);
    if (text === undefined) continue;
    count(text);
    if (!HEADER_VALUE.test(text)) throw refuse(`got a value for the header ${name} that a header cannot contain`);
    headers[name.toLowerCase()] = text;
  }
  const body = tool.body === undefined ? undefined : await jsonText(fillJson(tool.body, values));
  return { method: tool.method, url: filled.url, headers, body };
}

export async function sendRequest(
  callee: string,
  tool: HttpTool,
  request: HttpRequest,
  auth: Authentication,
  { signal, turn }: { readonly signal: AbortSignal; readonly turn: LargeResultTurn },
): Promise<PyValue> {
  const timeout = AbortSignal.timeout(Math.ceil(tool.timeout * 1000));
  try {
    const response = await follow(callee, withAuth(request, auth), AbortSignal.any([signal, timeout]));
    const body = await readBody(response, tool.output_limit);
    if (response.ok) return await responseValue(callee, tool, response, body, auth.secrets, turn);
    const said = tail(redact(body.bytes.toString(), auth.secrets)).trim();
    const message = `tools.${callee} got ${response.status} from ${request.url.host}.${said === '' ? '' : ` It said: ${said}`}`;
    throw new CellaError('TOOL_FAILED', message, { details: { tool: callee, status: response.status } });
  } catch (error) {
    throwIfAborted(signal, callee);
    if (timeout.aborted)
      throw new CellaError(
        'TOOL_TIMEOUT',
        `tools.${callee} got no answer from ${request.url.host} within ${tool.timeout} s.`,
      );
    if (error instanceof CellaError) throw error;
    const message = `tools.${callee} could not reach ${request.url.host}: ${redact(reason(error), auth.secrets)}.`;
    // Without the cause, which would contain the request with the credential.
    throw new CellaError('TOOL_FAILED', message, { details: { tool: callee } });
  }
}

function withAuth(request: HttpRequest, { headers, query }: Authentication): HttpRequest {
  const url = new URL(request.url);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return { ...request, url, headers: { ...request.headers, ...headers } };
}

/** Follows redirects only on the same server, so that no other server gets the credential or is called instead. */
async function follow(callee: string, request: HttpRequest, signal: AbortSignal): Promise<Response> {
  let { method, url, body, headers } = request;
  for (let count = 0; count <= MOST_REDIRECTS; count++) {
    const response = await fetch(url, {
      method,
      headers,
      redirect: 'manual',
      signal,
      body: typeof body === 'object' ? Buffer.concat(body) : body,
    });
    const location = [301, 302, 303, 307, 308].includes(response.status) ? response.headers.get('location') : null;
    if (location === null) return response;
    await response.body?.cancel();
    const next = URL.parse(location, url.href);
    if (next?.origin !== url.origin) {
      const message = `tools.${callee} was redirected from ${url.host} to ${next?.host ?? 'an address that cannot be read'}, which Cella does not follow.`;
      throw new CellaError('TOOL_FAILED', message, { details: { tool: callee, status: response.status } });
    }
    url = next;
    if (response.status < 307 && method !== 'HEAD') {
      method = 'GET';
      body = undefined;
      headers = Object.fromEntries(Object.entries(headers).filter(([name]) => name !== 'content-type'));
    }
  }
  throw new CellaError(
    'TOOL_FAILED',
    `tools.${callee} was redirected more than ${MOST_REDIRECTS} times by ${request.url.host}.`,
  );
}

/** The reason of a failed `fetch`, which is in its cause. */
function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message || error.cause.name : error.message;
}

/** The default content type, which is not shown for a request with a body. */
const PLAIN_TYPE = 'application/json';
const MOST_BODY_SHOWN = 4000;

/**
 * The request as shown in approval requests and compared with rules. It has the name of the credential and not its value.
 * Different requests never look the same: free texts are JSON, and the other parts contain no spaces.
 */
export function shownRequest({ method, url, headers, body }: HttpRequest, auth: HttpTool['auth']): string {
  const isPlain = (name: string, value: string) =>
    body !== undefined && name === 'content-type' && value === PLAIN_TYPE;
  const lines = Object.entries(headers)
    .filter(([name, value]) => !isPlain(name, value))
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]) => ` -H ${JSON.stringify(`${name}: ${value}`)}`);
  const as = auth === undefined ? '' : ` as ${shownAuth(auth)}`;
  return `${method} ${url.href}${as}${lines.join('')}${body === undefined ? '' : ` ${shownBody(body)}`}`;
}

/** The name of the credential, and how it is sent unless it is a bearer token. */
function shownAuth(auth: NonNullable<HttpTool['auth']>): string {
  if (auth.type === 'bearer') return auth.credential;
  const where = auth.type === 'basic' ? auth.username : auth.name;
  return `${auth.credential} (${auth.type} ${JSON.stringify(where)})`;
}

/** A long body is shown by its beginning and the digest of the whole body. */
function shownBody(given: JsonText): string {
  const body = typeof given === 'string' ? given : Buffer.concat(given).toString();
  if (body.length <= MOST_BODY_SHOWN) return body;
  const digest = createHash('sha256').update(body).digest('hex');
  return `${body.slice(0, MOST_BODY_SHOWN / 2).toWellFormed()}… (${body.length} characters, sha256 ${digest})`;
}

interface ResponseBody {
  readonly bytes: Buffer;
  /** Whether the rest was not read. */
  readonly cut: boolean;
}

export async function readBody(response: Response, limit: number): Promise<ResponseBody> {
  const gathered = new GatheredBytes(limit);
  for await (const chunk of response.body ?? []) {
    gathered.push(chunk);
    // Leaving the loop cancels the rest.
    if (gathered.cut > 0) break;
  }
  return { bytes: gathered.bytes(), cut: gathered.cut > 0 };
}

export async function responseValue(
  callee: string,
  tool: HttpTool,
  response: Response,
  { bytes, cut }: ResponseBody,
  secrets: readonly string[],
  turn?: LargeResultTurn,
): Promise<PyValue> {
  const kind = tool.result === 'auto' ? kindOf(response.headers.get('content-type') ?? '', bytes) : tool.result;
  if (cut && kind !== 'text') {
    throw new CellaError(
      'TOOL_FAILED',
      `tools.${callee} got more than the ${tool.output_limit} bytes of its \`output_limit\`.`,
    );
  }
  if (kind === 'bytes') return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = redact(decodeWhole(bytes), secrets);
  if (kind === 'json') return await parseToolJson(text, `What tools.${callee} got`, turn);
  return cut
    ? `${text}\n[the rest is missing: the output is longer than the output_limit of ${tool.output_limit} bytes]`
    : text;
}

function kindOf(type: string, bytes: Buffer): 'json' | 'text' | 'bytes' {
  if (bytes.length === 0) return 'text';
  if (/^application\/([^;]*\+)?json\b/i.test(type)) return 'json';
  if (/^(text\/|application\/([^;]*\+)?(xml|yaml|javascript|x-www-form-urlencoded)\b)/i.test(type)) return 'text';
  return type === '' ? 'text' : 'bytes';
}
