/**
 * The body of a request, read within a limit, and what is looked at of it. All of it is seen to be JSON, as it comes and
 * a piece at a time, and nothing but what is asked for is ever made of it: no body holds up the calls of others.
 */

import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { GatheredBytes } from '../../lib/gathered-bytes.ts';
import { type JsonMember, JsonScanner } from '../../lib/json-scanner.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type FieldWatch, refusedRequest } from './fields.ts';

/** More than any provider has names for, and more depth than any conversation. */
const LIMITS = { mostDeep: 500, mostKeys: 200 };
const MOST_KEY_BYTES = 200;
/** Of a value that is looked at. */
const MOST_VALUE_BYTES = 64 * 1024;

export interface Members {
  /** As they came. */
  readonly bytes: Buffer;
  /** Of those of the names that are there. */
  values(names: readonly string[]): Record<string, unknown>;
  /** The same bytes, but for this one. */
  with(name: string, value: unknown): Buffer;
}

/** `take` throws where there is no room for more, beside the bodies of other calls. */
export interface BodyRoom {
  readonly mostBytes: number;
  readonly take: (bytes: number) => void;
}

/** `watch` checks its fields. */
export async function readMembers(request: IncomingMessage, room: BodyRoom, watch: FieldWatch): Promise<Members> {
  const scan = new JsonScanner(LIMITS, watch);
  const bytes = await readBytes(request, room, (chunk) => {
    const isJson = scan.push(chunk);
    if (watch.finding) throw refusedRequest(watch.finding);
    if (!isJson) throw noJson();
  });
  // Where bytes are no text, two readers may see two texts.
  if (!scan.end() || !isUtf8(bytes)) throw noJson();
  if (!scan.isObject) throw invalid('The body is no object.');
  const found = named(bytes, scan.members);
  const read = ({ value: [from, to] }: JsonMember, name: string): unknown => {
    if (to - from > MOST_VALUE_BYTES) throw invalid(`The body cannot be used: ${name} is too long.`);
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

/** What is checked here and what the provider reads must be the same: of two with one name, some read the first. */
function named(bytes: Buffer, members: readonly JsonMember[]): Map<string, JsonMember> {
  const found = new Map<string, JsonMember>();
  for (const member of members) {
    const [from, to] = member.key;
    if (to - from > MOST_KEY_BYTES) throw invalid('The body has a key that is too long.');
    const name: string = JSON.parse(bytes.toString('utf8', from, to));
    if (found.has(name)) throw invalid('The body has a key twice.');
    found.set(name, member);
  }
  return found;
}

async function readBytes(
  request: IncomingMessage,
  { mostBytes, take }: BodyRoom,
  look: (chunk: Buffer) => void,
): Promise<Buffer> {
  const tooLarge = () =>
    new CellaError('TOO_LARGE', `The body is larger than ${mostBytes} bytes.`, {
      advice: 'Send less at once: a shorter conversation, or smaller images.',
    });
  if (Number(request.headers['content-length'] ?? 0) > mostBytes) throw tooLarge();
  // It has left while its token was looked at: nothing more is heard of it, not even that.
  if (request.destroyed) throw brokeOff();
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  let gathered = new GatheredBytes();
  let refused = false;
  // What comes past that is read and dropped, so that the answer finds its way to whoever sends it.
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

export const invalid = (message: string): CellaError =>
  new CellaError('INVALID_REQUEST', message, { advice: 'Send it as the provider documents it.' });

/** The words of a parser would hold a piece of what was sent. */
const noJson = (): CellaError => invalid('The body is no JSON, or is too deep, or has too many keys.');

const brokeOff = (): CellaError => new CellaError('ABORTED', 'The request broke off.');
