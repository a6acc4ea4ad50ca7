/** What an agent asks of a model: its body, read within a limit, and the model that it names. */

import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import type { Door } from './doors.ts';
import { wantedOf } from './estimate.ts';
import { topLevelKeys } from './top-level-keys.ts';

export interface Asked {
  /** As it is sent on; undefined where there is none. */
  readonly body: Buffer | undefined;
  readonly model: string | undefined;
  /** How many tokens it may be answered with. */
  readonly wanted: number;
}

/** Where bytes are no text, two readers may see two texts. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const ModelName = z.string().regex(/^[\w./:@-]{1,200}$/);
const Body = z.looseObject({
  model: ModelName.optional(),
  stream: z.boolean().nullish(),
  background: z.boolean().nullish(),
  stream_options: z.looseObject({}).nullish(),
});
type Body = z.infer<typeof Body>;

export async function readAsked(request: IncomingMessage, door: Door, mostBytes: number): Promise<Asked> {
  if (!door.takesBody) return { body: undefined, model: door.model, wanted: 0 };
  const { 'content-encoding': encoding = 'identity', 'content-type': type = '' } = request.headers;
  if (encoding !== 'identity') throw invalid('The body must not be compressed.');
  if (!/^application\/json\s*(;|$)/i.test(type)) throw invalid('The body must be application/json.');
  const bytes = await readBytes(request, mostBytes);
  const body = parse(bytes);
  checkKeys(bytes);
  const model = door.model ?? body.model;
  if (model === undefined) throw invalid('The body names no model.');
  if (body.background === true) throw invalid('What runs in the background cannot be counted, and is not taken.');
  return { body: countable(door, body) ?? bytes, model, wanted: wantedOf(body) };
}

async function readBytes(request: IncomingMessage, mostBytes: number): Promise<Buffer> {
  const tooLarge = () =>
    new CellaError('TOO_LARGE', `The body is larger than ${mostBytes} bytes.`, {
      advice: 'Send less at once: a shorter conversation, or smaller images.',
    });
  if (Number(request.headers['content-length'] ?? 0) > mostBytes) throw tooLarge();
  // It has left while its token was looked at: nothing more is heard of it, not even that.
  if (request.destroyed) throw brokeOff();
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  let chunks: Buffer[] = [];
  let size = 0;
  // What comes past the limit is read and dropped, so that the answer finds its way to whoever sends it.
  request.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size <= mostBytes) return void chunks.push(chunk);
    chunks = [];
    reject(tooLarge());
  });
  request.on('end', () => resolve(Buffer.concat(chunks)));
  request.on('close', () => reject(brokeOff()));
  request.on('error', () => reject(brokeOff()));
  return await promise;
}

function parse(bytes: Buffer): Body {
  let value: unknown;
  try {
    value = JSON.parse(UTF8.decode(bytes));
  } catch {
    throw invalid('The body is no JSON.'); // the parser's words hold a piece of what was sent
  }
  const parsed = Body.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw invalid(`The body cannot be used: ${issue?.path.join('.')}: ${issue?.message}.`);
}

/** What is checked here and what the provider reads must be the same. */
function checkKeys(bytes: Buffer): void {
  const seen = new Set<string>();
  for (const key of topLevelKeys(bytes)) {
    if (seen.has(key)) throw invalid('The body has a key twice.');
    seen.add(key);
  }
}

/** A stream of chat completions tells what it has used only where that is asked for. */
function countable({ wire }: Door, body: Body): Buffer | undefined {
  if (wire !== 'chat' || body.stream !== true || body.stream_options?.include_usage === true) return undefined;
  const options = { ...body.stream_options, include_usage: true };
  return Buffer.from(JSON.stringify({ ...body, stream_options: options }));
}

const invalid = (message: string): CellaError =>
  new CellaError('INVALID_REQUEST', message, { advice: 'Send it as the provider documents it.' });

const brokeOff = (): CellaError => new CellaError('ABORTED', 'The request broke off.');
