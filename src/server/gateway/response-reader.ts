/**
 * Reads an answer as it comes, and says what of it may go on to the agent: whole events of a stream, or all of an answer that
 * is none. Whatever holds a field that its API does not have, or the key, goes nowhere, and nothing after it.
 *
 * An event is written anew from its name and its data, so that nobody can read another one in it than was checked here.
 */

import { isUtf8 } from 'node:buffer';
import { GatheredBytes } from '../../lib/gathered-bytes.ts';
import { type JsonMember, JsonScanner } from '../../lib/json-scanner.ts';
import type { Provider } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ByteReservation } from '../request-limits.ts';
import { type FieldRules, FieldWatch, refusedAnswer } from './field-check.ts';
import { providerErrorBody } from './gateway-errors.ts';
import { KeyLeakScanner } from './key-leak-scanner.ts';
import { heldBack, permanentFailure, providerFailed } from './upstream.ts';
import type { ResponseUsageReader } from './usage-reader.ts';

const LIMITS = { mostDeep: 500, mostKeys: 200 };
/** The last event of OpenAI's holds the whole answer once more. */
const MOST_EVENT_BYTES = 32 * 1024 * 1024;
/** What is parsed as a whole; of more than that, only the small members are. */
const MOST_PARSED = { bytes: 1024 * 1024, effort: 300_000 };
const MOST_MEMBER_BYTES = 64 * 1024;
/** Of an answer in an event that is looked through; what a larger one has used is estimated. */
const MOST_INNER_BYTES = 2 * 1024 * 1024;
/** Of a line that is no data. */
const MOST_LINE_BYTES = 1024;
/** Of events that wait until it is known that they are not the beginning of the key. */
const MOST_WAITING_BYTES = 1024 * 1024;

const MOST_ERROR_BYTES = 1024 * 1024;
/** Characters of the message of an error. */
const MOST_SAID = 2000;

const [LF, CR, COLON, SPACE] = [0x0a, 0x0d, 0x3a, 0x20];
const DATA = Buffer.from('data:');
const BYTE_ORDER_MARK = Buffer.from('\uFEFF');
const NOTHING = Buffer.alloc(0);
const BLANK = Buffer.from(' ');
const END = Buffer.from('\n\n');
/** Of one event: providers write one. */
const MOST_DATA_LINES = 10_000;

export interface AnswerReaderOptions {
  readonly rules: FieldRules;
  readonly key: string;
  readonly usage: ResponseUsageReader;
  /** Whether it must come to an end as this provider ends a stream. */
  readonly mustEnd?: boolean | undefined;
  /** What is held is counted there. */
  readonly hold?: Pick<ByteReservation, 'resize'> | undefined;
}

export type Pass = (bytes: Buffer) => void;

export interface AnswerReader {
  /** Passes what may go on now; fails where the answer must not. */
  push(chunk: Buffer, pass: Pass): void;
  /** Nothing follows. */
  end(pass: Pass): void;
}

/** A message as it comes, with a scan of its fields. */
class Scanned {
  readonly #scan: JsonScanner;
  readonly #watch: FieldWatch;
  readonly #gathered = new GatheredBytes();
  isBroken = false;
  /** Whether there is a first byte of what some readers break a line at. */
  #mayBreak = false;

  constructor(rules: FieldRules) {
    this.#watch = new FieldWatch(rules);
    this.#scan = new JsonScanner(LIMITS, this.#watch);
  }

  push(piece: Buffer): void {
    this.#gathered.push(piece);
    this.#mayBreak ||= piece.includes(0xc2) || piece.includes(0xe2);
    if (this.isBroken) return;
    this.isBroken = !this.#scan.push(piece);
    if (this.#watch.finding) throw refusedAnswer(this.#watch.finding);
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

  /** Its text, where it is soon parsed; else undefined, and its bytes are to be used. */
  text(bytes: Buffer): string | undefined {
    const isSmall = bytes.length <= MOST_PARSED.bytes && this.#scan.effort <= MOST_PARSED.effort;
    return isSmall ? bytes.toString('utf8') : undefined;
  }

  /** Its value; without its larger parts where it would take long to parse. */
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
    // Events of OpenAI's hold an answer in such a member.
    else if (isOutermost && name === 'response' && inner.length <= MOST_INNER_BYTES)
      small.push([name, membersOf(inner)]);
  }
  return Object.fromEntries(small);
}

function membersOf(bytes: Buffer): Record<string, unknown> {
  const scan = new JsonScanner(LIMITS);
  return scan.push(bytes) && scan.end() ? smallMembers(bytes, scan.members, false) : {};
}

/** An answer that is no stream: it is passed on when it is whole. */
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

/** An error of the provider's: its own words pass in its own shape, whatever else is in it. */
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
    const watch = new FieldWatch(this.#options.rules);
    const scan = new JsonScanner(LIMITS, watch);
    return scan.push(bytes) && scan.end() && scan.isObject && !watch.finding && isUtf8(bytes);
  }
}

/** The message in an error of any shape. */
function saidIn(bytes: Buffer): string | undefined {
  const scan = new JsonScanner({ ...LIMITS, mostEffort: MOST_PARSED.effort });
  if (!isUtf8(bytes) || !scan.push(bytes) || !scan.end() || !scan.isObject) return undefined;
  const { error, message, detail } = JSON.parse(bytes.toString('utf8')) as Record<string, unknown>;
  const said = [Object(error).message, error, message, detail].find((each) => typeof each === 'string');
  return said?.slice(0, MOST_SAID);
}

/** A stream of events, as the `EventSource` of browsers reads it. */
export class EventReader implements AnswerReader {
  readonly #options: AnswerReaderOptions;
  readonly #keyWatch: KeyLeakScanner;
  /** Of what the model writes, from event to event. */
  readonly #textWatch: KeyLeakScanner;
  /** Events that wait until it is known that they are not the beginning of the key. */
  #waiting = new GatheredBytes();
  #isFirst = true;
  #skipsLf = false;
  /** The beginning of a line, until it is known what it is. */
  #line: Buffer = NOTHING;
  #isData = false;
  #name: string | undefined;
  #data: Scanned | undefined;
  #lines = 0;
  #hasComment = false;

  constructor(options: AnswerReaderOptions) {
    this.#options = options;
    this.#keyWatch = new KeyLeakScanner(options.key);
    this.#textWatch = new KeyLeakScanner(options.key);
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
    // A last event counts also where the empty line behind it is missing.
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
    // One more, for the blank that may follow.
    if (this.#line.length > DATA.length && this.#line.subarray(0, DATA.length).equals(DATA)) this.#beginData();
    else if (this.#line.length > MOST_LINE_BYTES) this.#line = Buffer.from(this.#line.subarray(0, MOST_LINE_BYTES));
  }

  #beginData(): void {
    const rest = this.#line.subarray(this.#line[DATA.length] === SPACE ? DATA.length + 1 : DATA.length);
    this.#line = NOTHING;
    this.#isData = true;
    // Lines of data are joined; between two tokens of JSON a blank is as good as the end of a line.
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
    // A sign of life; what it says is nobody's.
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
    else this.#checkText(usage.read(message));
    const head = name ? `event: ${name}\ndata: ` : 'data: ';
    const isWaiting = this.#textWatch.mayFollow;
    const take: Pass = isWaiting || this.#waiting.size > 0 ? (piece) => this.#waiting.push(piece) : pass;
    if (text !== undefined) take(Buffer.from(`${head}${onOneLine(text)}\n\n`));
    // A large one is not copied once more.
    else for (const piece of [Buffer.from(head), data.onOneLine(bytes), END]) take(piece);
    if (!isWaiting && this.#waiting.size > 0) this.#passWaiting(pass);
    if (this.#waiting.size > MOST_WAITING_BYTES) throw hasKey();
    hold?.resize(this.#waiting.size);
  }

  #checkText(text: string): void {
    if (text !== '' && !this.#textWatch.passes(Buffer.from(text))) throw hasKey();
  }
}

/** What an event may be called: as its data says. Some servers call an error so whose data does not. */
function nameOf(message: unknown): string | undefined {
  const { type, error } = Object(message) as { readonly type?: unknown; readonly error?: unknown };
  if (typeof type === 'string') return type;
  return error === undefined ? 'message' : 'error';
}

/** Some readers of events break a line at these too, which JSON allows in a text. */
function onOneLine(json: string): string {
  if (!/[\u0085\u2028\u2029]/.test(json)) return json;
  return json.replace(/[\u0085\u2028\u2029]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
const BREAKS = ['\u0085', '\u2028', '\u2029'].map((each) => Buffer.from(each));

const hasKey = () => heldBack('its answer holds the key');
const notWhole = () => providerFailed('its answer is not what this provider answers, or is not whole');
const noJson = () => providerFailed('an event of its stream is no JSON');
const otherName = () => heldBack('an event of its stream has another name than its data');
