/**
 * Reads an answer as it arrives and decides what passes to the agent: whole events of a stream, or the complete answer if it
 * is not a stream. Anything with an unknown field or with the key is held back, and so is everything after it.
 *
 * Each event is rewritten from its name and data, so that no parser can read anything else than what was checked.
 */

import { isUtf8 } from 'node:buffer';
import { GatheredBytes } from '../../lib/gathered-bytes.ts';
import { type JsonMember, JsonScanner } from '../../lib/json-scanner.ts';
import type { Provider } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ByteReservation } from '../request-limits.ts';
import { FieldChecker, type FieldRules, refusedAnswer } from './field-check.ts';
import { KeyLeakScanner, TextLeakScanner } from './key-leak-scanner.ts';
import { providerErrorBody } from './provider-api.ts';
import { heldBack, permanentFailure, providerFailed } from './upstream.ts';
import type { ResponseUsageReader } from './usage-reader.ts';

const LIMITS = { mostDeep: 500, mostKeys: 200 };
/** OpenAI's last event repeats the whole answer. */
const MOST_EVENT_BYTES = 32 * 1024 * 1024;
/** Up to this size, messages are parsed as a whole. For larger ones, only the small members are. */
const MOST_PARSED = { bytes: 1024 * 1024, effort: 300_000 };
const MOST_MEMBER_BYTES = 64 * 1024;
/** Limit on an answer within an event that is parsed. The usage of a larger answer is estimated. */
const MOST_INNER_BYTES = 2 * 1024 * 1024;
/** Limit on a line that is not data. */
const MOST_LINE_BYTES = 1024;
/** Limit on events held back because they may begin the key. */
const MOST_WAITING_BYTES = 1024 * 1024;

const MOST_ERROR_BYTES = 1024 * 1024;
/** Limit on the characters of an error message. */
const MOST_SAID = 2000;

const [LF, CR, COLON, SPACE] = [0x0a, 0x0d, 0x3a, 0x20];
const DATA = Buffer.from('data:');
const BYTE_ORDER_MARK = Buffer.from('\uFEFF');
const NOTHING = Buffer.alloc(0);
const BLANK = Buffer.from(' ');
const END = Buffer.from('\n\n');
/** Per event. Providers write one data line. */
const MOST_DATA_LINES = 10_000;

interface AnswerReaderOptions {
  readonly rules: FieldRules;
  readonly key: string;
  readonly usage: ResponseUsageReader;
  /** Whether the stream must end with this provider's end marker. */
  readonly mustEnd?: boolean | undefined;
  /** Counts the bytes held in memory. */
  readonly hold?: Pick<ByteReservation, 'resize'> | undefined;
}

export type Pass = (bytes: Buffer) => void;

export interface AnswerReader {
  /** Passes on what is checked. Throws if the answer is refused. */
  push(chunk: Buffer, pass: Pass): void;
  /** Call it at the end of the answer. */
  end(pass: Pass): void;
}

/** Scans the fields of a message as it arrives. */
class Scanned {
  readonly #scan: JsonScanner;
  readonly #checker: FieldChecker;
  readonly #gathered = new GatheredBytes();
  isBroken = false;
  /** Whether the message contains the first byte of a character at which some parsers break lines. */
  #mayBreak = false;

  constructor(rules: FieldRules) {
    this.#checker = new FieldChecker(rules);
    this.#scan = new JsonScanner(LIMITS, this.#checker);
  }

  push(piece: Buffer): void {
    this.#gathered.push(piece);
    this.#mayBreak ||= piece.includes(0xc2) || piece.includes(0xe2);
    if (this.isBroken) return;
    this.isBroken = !this.#scan.push(piece);
    if (this.#checker.finding) throw refusedAnswer(this.#checker.finding);
  }

  get size(): number {
    return this.#gathered.size;
  }

  get isWhole(): boolean {
    return !this.isBroken && this.#scan.end();
  }

  bytes(): Buffer {
    return this.#gathered.bytes();
  }

  onOneLine(bytes: Buffer): Buffer {
    const hasBreaks = this.#mayBreak && BREAKS.some((each) => bytes.includes(each));
    return hasBreaks ? Buffer.from(onOneLine(bytes.toString('utf8'))) : bytes;
  }

  /** The message's text if it is cheap to parse. Otherwise undefined: use the bytes. */
  text(bytes: Buffer): string | undefined {
    const isSmall = bytes.length <= MOST_PARSED.bytes && this.#scan.effort <= MOST_PARSED.effort;
    return isSmall ? bytes.toString('utf8') : undefined;
  }

  /** The parsed message, without its large members if it is expensive to parse. */
  value(bytes: Buffer, text = this.text(bytes)): unknown {
    return text === undefined ? smallMembers(bytes, this.#scan.members, true) : JSON.parse(text);
  }
}

function smallMembers(bytes: Buffer, members: readonly JsonMember[], isOutermost: boolean): Record<string, unknown> {
  const small: [string, unknown][] = [];
  for (const { key, value } of members) {
    const name = String(JSON.parse(bytes.toString('utf8', ...key)));
    const inner = bytes.subarray(...value);
    if (inner.length <= MOST_MEMBER_BYTES) small.push([name, JSON.parse(inner.toString('utf8'))]);
    // OpenAI's events contain an answer in this member.
    else if (isOutermost && name === 'response' && inner.length <= MOST_INNER_BYTES)
      small.push([name, membersOf(inner)]);
  }
  return Object.fromEntries(small);
}

function membersOf(bytes: Buffer): Record<string, unknown> {
  const scan = new JsonScanner(LIMITS);
  return scan.push(bytes) && scan.end() ? smallMembers(bytes, scan.members, false) : {};
}

/** Reads an answer that is not a stream, and passes it on when it is complete. */
export class JsonReader implements AnswerReader {
  readonly #options: AnswerReaderOptions;
  readonly #message: Scanned;
  readonly #keyWatch: KeyLeakScanner;

  constructor(options: AnswerReaderOptions) {
    this.#options = options;
    this.#message = new Scanned(options.rules);
    this.#keyWatch = new KeyLeakScanner(options.key);
  }

  push(chunk: Buffer): void {
    if (!this.#keyWatch.passes(chunk)) throw hasKey();
    this.#message.push(chunk);
    this.#options.hold?.resize(this.#message.size);
  }

  end(pass: Pass): void {
    const bytes = this.#message.bytes();
    if (!this.#message.isWhole || !isUtf8(bytes)) throw notWhole();
    this.#options.usage.read(this.#message.value(bytes));
    if (!this.#options.usage.end()) throw notWhole();
    pass(bytes);
  }
}

/** Reads a provider's error. Passes its message on in the provider's format, and drops everything else. */
export class ErrorReader implements AnswerReader {
  readonly #options: Pick<AnswerReaderOptions, 'rules' | 'key' | 'hold'>;
  readonly #refusal: { readonly provider: Provider; readonly status: number };
  readonly #keyWatch: KeyLeakScanner;
  readonly #gathered = new GatheredBytes();

  constructor(
    options: Pick<AnswerReaderOptions, 'rules' | 'key' | 'hold'>,
    refusal: { readonly provider: Provider; readonly status: number },
  ) {
    this.#options = options;
    this.#refusal = refusal;
    this.#keyWatch = new KeyLeakScanner(options.key);
  }

  push(chunk: Buffer): void {
    if (!this.#keyWatch.passes(chunk)) throw hasKey();
    this.#gathered.push(chunk);
    const { size } = this.#gathered;
    if (size > MOST_ERROR_BYTES) throw permanentFailure(`its error is larger than ${MOST_ERROR_BYTES} bytes`);
    this.#options.hold?.resize(size);
  }

  end(pass: Pass): void {
    const bytes = this.#gathered.bytes();
    pass(this.#isKnown(bytes) ? bytes : this.#plain(bytes));
  }

  #plain(bytes: Buffer): Buffer {
    const { provider, status } = this.#refusal;
    const said = saidIn(bytes);
    const message = `The provider answered with status ${status}${said ? `: ${said}` : ''}.`;
    return Buffer.from(JSON.stringify(providerErrorBody(provider, status, new CellaError('PROVIDER_FAILED', message))));
  }

  #isKnown(bytes: Buffer): boolean {
    const checker = new FieldChecker(this.#options.rules);
    const scan = new JsonScanner(LIMITS, checker);
    return scan.push(bytes) && scan.end() && scan.isObject && !checker.finding && isUtf8(bytes);
  }
}

/** Finds the message in an error of any shape. */
function saidIn(bytes: Buffer): string | undefined {
  const scan = new JsonScanner({ ...LIMITS, mostEffort: MOST_PARSED.effort });
  if (!isUtf8(bytes) || !scan.push(bytes) || !scan.end() || !scan.isObject) return undefined;
  const { error, message, detail } = JSON.parse(bytes.toString('utf8')) as Record<string, unknown>;
  const said = [Object(error).message, error, message, detail].find((each) => typeof each === 'string');
  return said?.slice(0, MOST_SAID);
}

/** Reads server-sent events like the browsers' `EventSource`. */
export class EventReader implements AnswerReader {
  readonly #options: AnswerReaderOptions;
  readonly #keyWatch: KeyLeakScanner;
  /** Scans the model's text across events. */
  readonly #textWatch: TextLeakScanner;
  /** Events held back because they may begin the key. */
  #waiting = new GatheredBytes();
  #isFirst = true;
  #skipsLf = false;
  /** The beginning of a line whose field is not known yet. */
  #line: Buffer = NOTHING;
  #isData = false;
  #name: string | undefined;
  #data: Scanned | undefined;
  #lines = 0;
  #hasComment = false;

  constructor(options: AnswerReaderOptions) {
    this.#options = options;
    this.#keyWatch = new KeyLeakScanner(options.key);
    this.#textWatch = new TextLeakScanner(options.key);
  }

  push(chunk: Buffer, pass: Pass): void {
    if (!this.#keyWatch.passes(chunk)) throw hasKey();
    let from = 0;
    let lf = chunk.indexOf(LF);
    let cr = chunk.indexOf(CR);
    while (from < chunk.length) {
      if (this.#skipsLf && chunk[from] === LF) from++;
      this.#skipsLf = false;
      if (lf !== -1 && lf < from) lf = chunk.indexOf(LF, from);
      if (cr !== -1 && cr < from) cr = chunk.indexOf(CR, from);
      const end = lf === -1 || cr === -1 ? Math.max(lf, cr) : Math.min(lf, cr);
      if (end === -1) {
        this.#bytes(chunk.subarray(from));
        break;
      }
      this.#bytes(chunk.subarray(from, end));
      this.#endLine(pass);
      this.#skipsLf = chunk[end] === CR;
      from = end + 1;
    }
  }

  end(pass: Pass): void {
    // The last event counts even without the empty line after it.
    this.#endLine(pass);
    this.#dispatch(pass);
    if (this.#textWatch.hasHalf) throw hasKey();
    this.#passWaiting(pass);
    if (!this.#options.usage.end() && this.#options.mustEnd) throw notWhole();
  }

  #passWaiting(pass: Pass): void {
    pass(this.#waiting.bytes());
    this.#waiting = new GatheredBytes();
  }

  #bytes(piece: Buffer): void {
    if (piece.length === 0) return;
    if (this.#isData) {
      this.#addData(piece);
      return;
    }
    if (this.#line.length < MOST_LINE_BYTES) {
      this.#line = this.#line.length === 0 ? piece : Buffer.concat([this.#line, piece]);
    }
    if (this.#isFirst && this.#line.length >= 3) {
      this.#isFirst = false;
      if (this.#line.subarray(0, 3).equals(BYTE_ORDER_MARK)) this.#line = this.#line.subarray(3);
    }
    // Wait for one more byte: a space may follow the colon.
    if (this.#line.length > DATA.length && this.#line.subarray(0, DATA.length).equals(DATA)) this.#beginData();
    else if (this.#line.length > MOST_LINE_BYTES) this.#line = Buffer.from(this.#line.subarray(0, MOST_LINE_BYTES));
  }

  #beginData(): void {
    const rest = this.#line.subarray(this.#line[DATA.length] === SPACE ? DATA.length + 1 : DATA.length);
    this.#line = NOTHING;
    this.#isData = true;
    // Join data lines with a blank, which between JSON tokens is equivalent to a newline.
    if (this.#data) this.#addData(BLANK);
    if (++this.#lines > MOST_DATA_LINES) throw permanentFailure(`an event has more than ${MOST_DATA_LINES} lines`);
    this.#addData(rest);
  }

  #addData(piece: Buffer): void {
    this.#data ??= new Scanned(this.#options.rules);
    this.#data.push(piece);
    if (this.#data.size > MOST_EVENT_BYTES) throw permanentFailure(`an event is larger than ${MOST_EVENT_BYTES} bytes`);
    this.#options.hold?.resize(this.#data.size);
    if (this.#data.isBroken && this.#data.size > MOST_LINE_BYTES) throw noJson();
  }

  #endLine(pass: Pass): void {
    const line = this.#line;
    this.#line = NOTHING;
    if (this.#isData) this.#isData = false;
    else if (line.length === 0) this.#dispatch(pass);
    else if (line[0] === COLON) this.#hasComment = true;
    else if (line.subarray(0, 6).toString('latin1') === 'event:') this.#name = line.toString('utf8', 6).trim();
  }

  #dispatch(pass: Pass): void {
    const [name, data] = [this.#name, this.#data];
    this.#name = undefined;
    this.#data = undefined;
    this.#lines = 0;
    if (data) this.#event(name, data, pass);
    // A heartbeat. Its content is dropped.
    else if (this.#hasComment) pass(Buffer.from(':\n\n'));
    this.#hasComment = false;
  }

  #event(name: string | undefined, data: Scanned, pass: Pass): void {
    const { usage, hold } = this.#options;
    const bytes = data.bytes();
    const isDone = data.size < 20 && bytes.toString('latin1').trim() === '[DONE]';
    if (!isDone && (!data.isWhole || !isUtf8(bytes))) throw noJson();
    const text = data.text(bytes);
    const message = isDone ? undefined : data.value(bytes, text);
    if (name !== undefined && name !== '' && name !== nameOf(message)) throw otherName();
    if (isDone) usage.done();
    else if (!this.#textWatch.passes(usage.read(message))) throw hasKey();
    const head = name ? `event: ${name}\ndata: ` : 'data: ';
    const isWaiting = this.#textWatch.mayFollow;
    const take: Pass = isWaiting || this.#waiting.size > 0 ? (piece) => this.#waiting.push(piece) : pass;
    if (text !== undefined) take(Buffer.from(`${head}${onOneLine(text)}\n\n`));
    // Avoids another copy of a large event.
    else for (const piece of [Buffer.from(head), data.onOneLine(bytes), END]) take(piece);
    if (!isWaiting && this.#waiting.size > 0) this.#passWaiting(pass);
    if (this.#waiting.size > MOST_WAITING_BYTES) throw hasKey();
    hold?.resize(this.#waiting.size);
  }
}

/** The event name that the data implies. Some servers name an event `error` although its data has no such type. */
function nameOf(message: unknown): string | undefined {
  const { type, error } = Object(message) as { readonly type?: unknown; readonly error?: unknown };
  if (typeof type === 'string') return type;
  return error === undefined ? 'message' : 'error';
}

/** Escapes characters that JSON allows in strings, but at which some event parsers break lines. */
function onOneLine(json: string): string {
  if (!/[\u0085\u2028\u2029]/.test(json)) return json;
  return json.replace(/[\u0085\u2028\u2029]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
const BREAKS = ['\u0085', '\u2028', '\u2029'].map((each) => Buffer.from(each));

const hasKey = () => heldBack('its answer contains the key');
const notWhole = () => providerFailed('its answer is incomplete or not in the format of this provider');
const noJson = () => providerFailed('an event of its stream is not JSON');
const otherName = () => heldBack('an event of its stream has another name than its data');
